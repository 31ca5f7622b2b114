//! The control thread's side of the metrics: asks workers for their histograms, sums them up, and answers scrapes.

#[cfg(test)]
use super::Stage;
use super::snapshot::{Gauges, Snapshot};
use super::window::{Demand, Histograms, Reading, Recent, Window};
#[cfg(test)]
use super::window::{Distribution, Series};
use super::worker_metrics::WorkerMetrics;
#[cfg(all(test, feature = "cli"))]
use crate::fate::CLASSES;
use crate::time::{Nanos, clock};
use std::thread;

/// The longest wait of one [`Collector::collect`] for workers to hand over. A worker between two turns of its loop takes
/// microseconds. A worker in a long job is late, and a scrape that waited for it would exceed its own 100 ms.
const PATIENCE: Nanos = Nanos::from_millis(20);

/// The first pause while waiting, doubled up to [`LONGEST_PAUSE`]: about the time that a woken worker needs.
const FIRST_PAUSE: Nanos = Nanos::from_micros(50);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(2);

/// Gathers the measurements of all workers of one [`WorkerMetrics`], which has one collector. Owned by one thread.
#[derive(Debug)]
pub struct Collector<'b> {
    /// The metrics that it collects.
    pub(crate) metrics: &'b WorkerMetrics,
    asked: Vec<Asked>,
    /// The sum of all histograms taken in one `collect`: adding histograms of one shape is cheap, sorting their bins is
    /// not.
    gathered: Histograms,
    /// The counters as of the last `collect`.
    last: Reading,
    /// Since the start, the last seconds, the last tens of seconds.
    windows: [Window; 3],
    /// The number of the second since which requests are of the mix of now.
    mix: u64,
    /// Start of the server on the real-time clock, distinct for each server on one address.
    start_time: Nanos,
    /// Datagrams that the kernel has dropped since the start; `None` where that is not known.
    pub(crate) kernel_dropped: Option<u64>,
}

/// The collector's state for one worker.
#[derive(Debug, Default)]
struct Asked {
    /// The empty histograms to offer next; `None` while the worker has them and owes its own.
    spare: Option<Box<Histograms>>,
    /// The worker's count of entries when it was last asked. Read before the question, so that an entry made in between
    /// leads to one question too many and never to one too few.
    recorded: u64,
}

impl<'b> Collector<'b> {
    /// The collector of `metrics`.
    pub fn new(metrics: &'b WorkerMetrics) -> Collector<'b> {
        Collector {
            metrics,
            asked: (0..metrics.recorders()).map(|_| Asked { spare: Some(Box::default()), recorded: 0 }).collect(),
            gathered: Histograms::default(),
            windows: [
                Window::new(1, Nanos::MAX),
                Window::new(10, Nanos::from_secs(1)),
                Window::new(6, Nanos::from_secs(10)),
            ],
            last: Reading::new(metrics, Some(0)),
            mix: 0,
            start_time: clock::realtime(),
            kernel_dropped: None,
        }
    }

    /// Asks every worker with new measurements for its histograms, and calls `wake` with its number, since a sleeping worker
    /// hands nothing over. Gathers what arrives within 20 ms; the rest comes next time. To be called once per second, so
    /// that the windows are right, and before a [`Collector::snapshot`]. On an idle server no worker is asked or woken.
    ///
    /// Once all recorders are dropped, it gathers everything that is left, without waiting.
    pub fn collect(&mut self, wake: impl Fn(usize)) {
        for worker in 0..self.asked.len() {
            self.take(worker);
            if self.ask(worker) {
                wake(worker);
            }
        }
        self.wait();
        let (now, gathered) = (Reading::new(self.metrics, self.kernel_dropped), self.gathered.take());
        for window in &mut self.windows {
            window.add(&self.last, now.at, &gathered);
        }
        self.last = now;
    }

    /// The counters as of now, and the distributions as of the last [`Collector::collect`]. Distributions may lack the
    /// latest entries of workers that were late. So an answered request can be in the fates before it is in a distribution.
    pub fn snapshot(&self, gauges: Gauges) -> Snapshot {
        let demand = Demand::of(&self.windows[2], &self.last, gauges.class_names);
        let utilisation = |window: &Window| window.utilisation(&self.last, self.metrics.workers());
        let utilisation = self.windows.each_ref().map(utilisation);
        Snapshot::new(gauges, self.start_time, self.metrics.counts(), &self.windows, utilisation, demand)
    }

    /// The work of the last seconds, answered or not, as of the last [`Collector::collect`]. To be called once per
    /// second, after that.
    pub fn recent(&mut self) -> Recent {
        let since = (0..self.metrics.workers()).filter_map(|worker| self.metrics.running_since(worker));
        let running: Vec<Nanos> = since.map(|since| self.last.at.minus(since)).collect();
        Recent::of(&self.windows[1], &self.last, &running, self.metrics.workers(), &mut self.mix)
    }

    /// The service times of all requests that were served, summed, as of the last [`Collector::collect`].
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn served(&self) -> Nanos {
        let classes = std::array::from_fn::<_, CLASSES, _>(|class| Series::stage(class, Stage::Service));
        Nanos::new(Distribution::of(self.windows[0].last(self.last.at), &classes).sum)
    }

    /// Offers the worker empty histograms if it has new entries, can still answer and owes nothing.
    fn ask(&mut self, worker: usize) -> bool {
        let asked = &mut self.asked[worker];
        let recorded = self.metrics.workers[worker].counters.recorded.read();
        let swap_slot = &self.metrics.workers[worker].swap_slot;
        if recorded == asked.recorded || swap_slot.is_gone() {
            return false;
        }
        // A worker that still owes an answer was woken when it was asked, and hands over before it sleeps.
        let Some(empty) = asked.spare.take() else { return false };
        asked.recorded = recorded;
        swap_slot.ask(empty);
        true
    }

    /// Takes histograms until no worker owes any, or until [`PATIENCE`] has passed.
    fn wait(&mut self) {
        let deadline = clock::now().plus(PATIENCE);
        let mut pause = FIRST_PAUSE;
        loop {
            let owing = (0..self.asked.len()).filter(|worker| !self.take(*worker)).count();
            if owing == 0 || clock::now() >= deadline {
                break;
            }
            thread::sleep(pause.into());
            pause = pause.times(2).min(LONGEST_PAUSE);
        }
    }

    /// Takes all histograms that the worker has published; true if it owes nothing more.
    fn take(&mut self, worker: usize) -> bool {
        let swap_slot = &self.metrics.workers[worker].swap_slot;
        let asked = &mut self.asked[worker];
        // Read before the swap slot is emptied: a worker that is gone by now has published everything.
        let gone = swap_slot.is_gone();
        while let Some(mut full) = swap_slot.take() {
            full.move_to(&mut self.gathered);
            asked.spare = Some(full);
        }
        if gone && asked.spare.is_none() {
            asked.spare = swap_slot.take_back();
        }
        asked.spare.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Recorder, Sample, Spent};
    use crate::time::clock::in_virtual_time;
    use std::cell::{Cell, RefCell};

    fn sample(class: u8, service_us: u64) -> Sample {
        Sample { class, service: Nanos::from_micros(service_us), ..Sample::default() }
    }

    fn measured(collector: &Collector<'_>, series: Series) -> Distribution {
        Distribution::of(collector.windows[0].last(collector.last.at), &[series])
    }

    fn in_total(collector: &Collector<'_>, class: usize) -> u64 {
        measured(collector, Series::slowdown(class)).count
    }

    /// Is every sample counted exactly once, whatever the interleaving of recording, asking and stopping?
    /// Method: two workers record and hand over as fast as they can while the control thread collects all the time.
    #[test]
    fn nothing_is_lost_and_nothing_counted_twice() {
        const SAMPLES: u64 = 30_000;
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        std::thread::scope(|scope| {
            let work = |mut recorder: Recorder<'_>, class| {
                for number in 0..SAMPLES {
                    recorder.answered(&sample(class, number % 100 + 1));
                    recorder.hand_over();
                }
            };
            let workers = [0, 1].map(|class: u8| {
                let recorder = metrics.recorder(usize::from(class));
                scope.spawn(move || work(recorder, class))
            });
            while !workers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                collector.collect(|_| ());
                assert!(in_total(&collector, 0) <= SAMPLES);
            }
        });
        collector.collect(|_| ());
        assert_eq!([in_total(&collector, 0), in_total(&collector, 1)], [SAMPLES; 2]);
        let exact: u64 = (0..SAMPLES).map(|number| (number % 100 + 1) * 1_000).sum();
        assert_eq!(measured(&collector, Series::stage(0, Stage::Total)).sum, exact);
    }

    /// Do policies hear of all work: what was answered, what ended otherwise, and what still runs?
    #[test]
    fn recent_work_is_all_work() {
        let start = clock::now();
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        let (mut first, mut second) = (metrics.recorder(0), metrics.recorder(1));
        first.answered(&sample(0, 100));
        first.unanswered(1, Nanos::from_millis(60));
        first.unanswered(1, Nanos::ZERO);
        // It would have taken as long as one of the two that took longer.
        first.unanswered(0, Nanos::from_micros(10));
        first.end_slice(Nanos::from_millis(60));
        first.spend(Spent::Interruptible, Nanos::from_millis(15));
        second.begin_slice(start);
        drop(first);
        collector.collect(|_| ());
        let recent = collector.recent();
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

    /// Does a slice under way that is longer than every request count as one, and one that lasts for ever as none?
    #[test]
    fn what_lasts_counts_before_it_ends() {
        in_virtual_time::set(Some(Nanos::from_secs(100)));
        let metrics = WorkerMetrics::new(4);
        let mut collector = Collector::new(&metrics);
        let mut recorders = [0, 1, 2, 3].map(|worker| metrics.recorder(worker));
        recorders[0].answered(&sample(0, 100_000));
        for (recorder, at_ms) in recorders.iter_mut().zip([100_000, 99_940, 95_000, 89_000]) {
            recorder.begin_slice(Nanos::from_millis(at_ms));
        }
        let recorders = RefCell::new(recorders);
        collector.collect(|worker| recorders.borrow_mut()[worker].hand_over());
        let recent = collector.recent();
        in_virtual_time::set(None);
        let seconds = |(took, count): &(Nanos, u64)| (took.as_secs_f64() as u64, *count);
        assert_eq!(recent.service_times.iter().map(seconds).collect::<Vec<_>>(), [(0, 1), (5, 1)]);
    }

    /// Is the time of a worker that was neither in a handler nor idle known, with that of one which still sleeps?
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
        thread::sleep(slept_for.into());
        idle.end_idle(clock::now().minus(start));
        let lasted = clock::now().minus(start);
        worker.end_slice(Nanos::new(lasted.get() / 4));
        worker.spend(Spent::Charged, Nanos::new(lasted.get() / 2));
        collector.collect(|_| ());
        let recent = collector.recent();
        // The reading is made a little later, and the collector is a little older.
        let near = |value: f64, due: f64| (value - due).abs() < 0.2;
        assert!(near(recent.between_workers, 0.75) && near(recent.charged_workers, 0.5), "{recent:?}");
        assert!(recent.rate > 0.0 && recent.rate <= 30.0 / slept_for.as_secs_f64(), "{recent:?}");
        let utilisation = collector.snapshot(Gauges::default()).utilisation.map(Option::unwrap_or_default);
        let busy = recent.busy_workers + recent.between_workers;
        assert!(utilisation.iter().all(|share| (share * 3.0 - busy).abs() < 1e-6), "{utilisation:?}, {recent:?}");
    }

    /// Does the wake reach a sleeping worker with new entries, and no other worker?
    #[test]
    fn only_workers_with_news_are_woken() {
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        let sleeper = RefCell::new(metrics.recorder(1));
        sleeper.borrow_mut().answered(&sample(0, 5));
        let woken = Cell::new(0);
        let wake = |worker| {
            assert_eq!(worker, 1);
            woken.set(woken.get() + 1);
            sleeper.borrow_mut().hand_over();
        };
        collector.collect(wake);
        assert_eq!((in_total(&collector, 0), woken.get()), (1, 1));
        collector.collect(wake);
        assert_eq!(woken.get(), 1, "nothing new, nobody asked");
    }

    /// Does a worker that is late delay nothing but its own histograms?
    #[test]
    fn late_histograms_are_taken_next_time() {
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        let (mut late, mut prompt) = (metrics.recorder(0), metrics.recorder(1));
        late.answered(&sample(0, 5));
        prompt.answered(&sample(1, 5));
        let prompt = RefCell::new(prompt);
        let wake = |worker| {
            if worker == 1 {
                prompt.borrow_mut().hand_over();
            }
        };
        collector.collect(wake);
        assert_eq!([in_total(&collector, 0), in_total(&collector, 1)], [0, 1]);
        late.answered(&sample(0, 5));
        late.hand_over();
        late.answered(&sample(0, 5));
        collector.collect(wake);
        assert_eq!(in_total(&collector, 0), 2, "the third entry is in the new histograms");
        drop(late);
        collector.collect(wake);
        assert_eq!(in_total(&collector, 0), 3);
    }

    /// Does a worker that stops with a question open publish everything, and does the control thread not wait for it?
    #[test]
    fn a_stopped_worker_leaves_its_last_histograms() {
        let metrics = WorkerMetrics::new(1);
        let mut collector = Collector::new(&metrics);
        let mut recorder = metrics.recorder(0);
        recorder.answered(&sample(0, 5));
        collector.collect(|_| ());
        assert_eq!(in_total(&collector, 0), 0, "the worker did not answer");
        recorder.answered(&sample(0, 5));
        drop(recorder);
        collector.collect(|_| panic!("nobody is left to wake"));
        assert_eq!(in_total(&collector, 0), 2);
        assert!(collector.asked[0].spare.is_some(), "the question was taken back");
    }
}
