//! The collector: the control thread's part of the metrics. It sums up the workers' records, and
//! makes the data of a scrape.

use super::counters::Counts;
use super::snapshot::{Gauges, Latencies, Snapshot};
use super::window::{Bins, Window, news, recent};
use super::window::{Distribution, Series, Stage};
use super::worker_metrics::WorkerMetrics;
use crate::fate::CLASSES;
use crate::fate::Fates;
use crate::time::Nanos;
use forebay_clock as clock;
use forebay_sched::Recent;

/// Gathers the measurements of all workers. There is one for each [`WorkerMetrics`], and one thread
/// owns it.
#[derive(Debug)]
pub struct Collector<'b> {
    /// The metrics that the collector reads.
    pub metrics: &'b WorkerMetrics,
    /// Number of histogram entries at the last `collect`.
    entries: u64,
    /// The counters at the last `collect`.
    last: Counts,
    /// Measurements since the start, of the last 10 s, and of the last 60 s.
    windows: [Window; 3],
    /// Start of the server on the real-time clock. By it, clients can tell apart servers that had
    /// the same address one after the other.
    start_time: Nanos,
}

impl<'b> Collector<'b> {
    /// A collector that starts now.
    pub fn new(metrics: &'b WorkerMetrics) -> Collector<'b> {
        Collector {
            metrics,
            entries: 0,
            windows: [
                Window::new(1, Nanos::MAX),
                Window::new(10, Nanos::from_secs(1)),
                Window::new(6, Nanos::from_secs(10)),
            ],
            last: metrics.counts(),
            start_time: clock::realtime(),
        }
    }

    /// Gathers the workers' new records. Call it once per second, so that the windows are right,
    /// and before each [`Collector::snapshot`].
    pub fn collect(&mut self) {
        let histograms = self.metrics.histograms();
        let entries = histograms.iter().map(|worker| worker.entries()).sum();
        let idle = entries == std::mem::replace(&mut self.entries, entries);
        let news = if idle { Bins::default() } else { news(&histograms, self.windows[0].whole()) };
        let now = self.metrics.counts();
        for window in &mut self.windows {
            window.add(&self.last, now.at, &news);
        }
        self.last = now;
    }

    /// Returns the counters as of now, and the distributions as of the last [`Collector::collect`].
    /// So a request may already count as answered but not yet be in a distribution.
    pub fn snapshot(&self, gauges: Gauges) -> Snapshot {
        let [since_start, last_10s, last_60s] = &self.windows;
        let (now, counts) = (clock::now(), self.metrics.counts());
        let latencies = |window: &Window| Latencies::of(window.last(now), &gauges);
        let utilisation = |window: &Window| window.utilisation(&self.last, self.metrics.workers());
        Snapshot {
            fates: Fates::new(counts.received, &counts.ended, gauges.kernel_dropped.iter().copied().sum()),
            since_start: latencies(since_start),
            last_10s: latencies(last_10s),
            last_60s: latencies(last_60s),
            measured: since_start.whole().clone(),
            utilisation: self.windows.each_ref().map(utilisation),
            start_time: self.start_time,
            gauges,
            counts,
        }
    }

    /// Number of the interval of the 60 s window that was current at the last
    /// [`Collector::collect`].
    #[cfg(feature = "admin")]
    pub(super) fn interval(&self) -> u64 {
        self.windows[2].number(self.last.at)
    }

    /// Latencies of the finished intervals of the 60 s window, from number `first` on.
    #[cfg(feature = "admin")]
    pub(super) fn latencies_from(&self, first: u64, gauges: &Gauges) -> Latencies {
        Latencies::of(self.windows[2].of(first..self.interval()), gauges)
    }

    /// The work of the last seconds, answered or not, as of the last [`Collector::collect`]. Call
    /// it once per second, after `collect`.
    pub fn recent(&mut self) -> Recent {
        let since = (0..self.metrics.workers()).filter_map(|worker| self.metrics.running_since(worker));
        let running: Vec<Nanos> = since.map(|since| self.last.at.minus(since)).collect();
        recent(&mut self.windows[1], &self.last, &running, self.metrics.workers())
    }

    /// The sum of the service times of all served requests, as of the last [`Collector::collect`].
    pub fn served(&self) -> Nanos {
        let classes = std::array::from_fn::<_, CLASSES, _>(|class| Series::stage(class, Stage::Service));
        Nanos::new(Distribution::of(self.windows[0].last(self.last.at), &classes).sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Spent;
    use crate::window::Sample;
    use crate::worker_metrics::Recorder;
    use forebay_clock::virtual_time;

    fn sample(class: u8, service_us: u64) -> Sample {
        Sample { class, service: Nanos::from_micros(service_us), ..Sample::default() }
    }

    fn measured(collector: &Collector<'_>, series: Series) -> Distribution {
        Distribution::of(collector.windows[0].last(collector.last.at), &[series])
    }

    fn in_total(collector: &Collector<'_>, class: usize) -> u64 {
        measured(collector, Series::slowdown(class)).count
    }

    /// Is every sample counted exactly once, however recording and reading interleave? Method: two
    /// workers record without pause while the control thread collects.
    #[test]
    fn nothing_is_lost_and_nothing_counted_twice() {
        const SAMPLES: u64 = 30_000;
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        std::thread::scope(|scope| {
            let work = |mut recorder: Recorder<'_>, class| {
                for number in 0..SAMPLES {
                    recorder.answered(&sample(class, number % 100 + 1));
                    recorder.turned();
                }
            };
            let workers = [0, 1].map(|class: u8| {
                let recorder = metrics.recorder(usize::from(class));
                scope.spawn(move || work(recorder, class))
            });
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                collector.collect();
                assert!(in_total(&collector, 0) <= SAMPLES);
            }
        });
        collector.collect();
        assert_eq!([in_total(&collector, 0), in_total(&collector, 1)], [SAMPLES; 2]);
        let exact: u64 = (0..SAMPLES).map(|number| (number % 100 + 1) * 1_000).sum();
        assert_eq!(measured(&collector, Series::stage(0, Stage::Total)).sum, exact);
    }

    /// Do policies see all work: answered, ended otherwise, and still running?
    #[test]
    fn recent_work_is_all_work() {
        let start = Nanos::from_secs(100);
        virtual_time::set(Some(start));
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        let (mut first, mut second) = (metrics.recorder(0), metrics.recorder(1));
        first.answered(&sample(0, 100));
        first.unanswered(1, Nanos::from_millis(60));
        first.unanswered(1, Nanos::ZERO);
        // The broken-off request counts as long as one of the two requests that took longer.
        first.unanswered(0, Nanos::from_micros(10));
        first.end_slice(Nanos::from_millis(60));
        first.spend(Spent::Interruptible, Nanos::from_millis(15));
        second.begin_slice(start);
        virtual_time::pass(Nanos::from_millis(50));
        collector.collect();
        let recent = collector.recent();
        virtual_time::set(None);
        let count = |of: fn(&Nanos) -> bool| recent.service_times.iter().filter(|(time, _)| of(time)).count();
        assert_eq!((recent.service_times.len(), count(|time| *time > Nanos::from_millis(45))), (2, 1));
        let requests = |times: &[(Nanos, u64)]| times.iter().map(|(_, count)| count).sum::<u64>();
        assert!(
            recent.service_times.iter().all(|(took, count)| *took > Nanos::from_micros(90) && *count == 2),
            "{recent:?}"
        );
        assert_eq!(recent.times_of_class.each_ref().map(|times| requests(times))[..3], [2, 1, 0]);
        assert_eq!((recent.by_class[0].0, recent.by_class[1].0), (2, 1));
        assert!(recent.by_class[1].1 > Nanos::from_millis(45), "{:?}", recent.by_class[1]);
        let share = recent.uninterruptible_workers / recent.busy_workers;
        assert!(share > 0.7 && share < 0.9, "15 ms of 60 and of what still runs passed checkpoints: {share}");
        assert!(recent.busy_workers > 1.0, "one worker is busy from the start, another was: {}", recent.busy_workers);
    }

    /// Does a running slice that is longer than every request count as a service time, and an
    /// endless one not?
    #[test]
    fn what_lasts_counts_before_it_ends() {
        virtual_time::set(Some(Nanos::from_secs(100)));
        let metrics = WorkerMetrics::new(4);
        let mut collector = Collector::new(&metrics);
        let mut recorders = [0, 1, 2, 3].map(|worker| metrics.recorder(worker));
        recorders[0].answered(&sample(0, 100_000));
        for (recorder, at_ms) in recorders.iter_mut().zip([100_000, 99_940, 95_000, 89_000]) {
            recorder.begin_slice(Nanos::from_millis(at_ms));
        }
        collector.collect();
        let recent = collector.recent();
        virtual_time::set(None);
        let seconds = |(took, count): &(Nanos, u64)| (took.as_secs_f64() as u64, *count);
        assert_eq!(recent.service_times.iter().map(seconds).collect::<Vec<_>>(), [(0, 1), (5, 1)]);
    }

    /// Is the time known in which a worker was neither in a handler nor idle, even while another
    /// worker sleeps?
    #[test]
    fn the_time_between_jobs_is_what_is_left() {
        let metrics = WorkerMetrics::new(3);
        let mut collector = Collector::new(&metrics);
        let start = clock::now();
        let [mut worker, mut sleeper, mut idle] = [0, 1, 2].map(|id| metrics.recorder(id));
        sleeper.begin_idle(start);
        idle.begin_idle(start);
        worker.received(30);
        let slept_for = Nanos::from_millis(40);
        std::thread::sleep(slept_for.into());
        idle.end_idle(clock::now().minus(start));
        let lasted = clock::now().minus(start);
        worker.end_slice(Nanos::new(lasted.get() / 4));
        worker.spend(Spent::Charged, Nanos::new(lasted.get() / 2));
        collector.collect();
        let recent = collector.recent();
        // The reading is a little later than the collector's.
        let near = |value: f64, due: f64| (value - due).abs() < 0.2;
        assert!(near(recent.between_workers, 0.75) && near(recent.charged_workers, 0.5), "{recent:?}");
        assert!(recent.rate > 0.0 && recent.rate <= 30.0 / slept_for.as_secs_f64(), "{recent:?}");
        let utilisation = collector.snapshot(Gauges::default()).utilisation.map(Option::unwrap_or_default);
        let busy = recent.busy_workers + recent.between_workers;
        assert!(utilisation.iter().all(|share| (share * 3.0 - busy).abs() < 1e-6), "{utilisation:?}, {recent:?}");
    }
}
