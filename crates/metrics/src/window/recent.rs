//! The work of the last seconds, as input for adaptive policies.

use super::histograms::SHORTEST;
use super::shift::differ;
use super::{Bins, Distribution, Series, Stage, Window};
use crate::counters::{Counts, Spent};
use crate::fate::CLASSES;
use crate::time::Nanos;
use forebay_sched::Recent;

/// The work of `workers` workers in `window`, up to the last reading `now`. `running` has the
/// length of each running slice. Call it once per interval.
pub(crate) fn recent(window: &mut Window, now: &Counts, running: &[Nanos], workers: usize) -> Recent {
    let (oldest, newest) = (window.oldest(now.at), window.number(now.at));
    let has_shifted = has_shifted(window, window.mix.max(oldest), newest);
    if has_shifted {
        window.mix = newest;
    }
    let since = |number: u64| {
        let bins: Vec<&Bins> = window.of(number..).collect();
        window.begin(number).map(|begin| begin.work_until(now, &bins, running, workers)).unwrap_or_default()
    };
    let since_shift = (window.mix > oldest).then(|| Box::new(since(window.mix)));
    Recent { since_shift, has_shifted, ..since(oldest) }
}

/// Whether the service times of the interval `newest` differ from those of the intervals from
/// `first` on. Unanswered requests count too.
fn has_shifted(window: &Window, first: u64, newest: u64) -> bool {
    let times = |bins: Vec<&Bins>| -> Vec<(Nanos, u64)> {
        let of_class = |class| requests(&bins, class).0.into_iter().map(|(took, _, count)| (took, count));
        (0..CLASSES).flat_map(of_class).collect()
    };
    differ(&times(window.of(newest..).collect()), &times(window.of(first..newest).collect()))
}

impl Counts {
    /// The work from this reading to `now`. `bins` has the requests that ended in between.
    fn work_until(&self, now: &Counts, bins: &[&Bins], running: &[Nanos], workers: usize) -> Recent {
        let span = now.at.minus(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let mean = |of: fn(&Counts) -> Nanos| of(now).minus(of(self)).as_secs_f64() / span;
        let mut recent = Recent {
            busy_workers: mean(|counts| counts.worked()),
            charged_workers: mean(|counts| counts.spent(Spent::Charged)),
            idle_workers: mean(|counts| counts.idle),
            rate: (now.received - self.received) as f64 / span,
            ..Recent::default()
        };
        let interruptible_workers = mean(|counts| counts.spent(Spent::Interruptible));
        recent.uninterruptible_workers = (recent.busy_workers - interruptible_workers).max(0.0);
        recent.between_workers = (workers as f64 - recent.idle_workers - recent.busy_workers).max(0.0);
        let mut all = Vec::new();
        for class in 0..CLASSES {
            let (requests, time) = requests(bins, class);
            recent.by_class[class] = (requests.iter().map(|(.., count)| count).sum(), time);
            all.extend_from_slice(&requests);
            recent.times_of_class[class] = served_to_the_end(requests);
        }
        recent.service_times = served_to_the_end(all);
        // The bound `SLICE_MAX` keeps one stuck worker from raising the limits without end.
        let longest = recent.service_times.last().map_or(Nanos::ZERO, |(took, _)| *took);
        let counts = |ran: &&Nanos| **ran > longest && **ran < SLICE_MAX;
        recent.service_times.extend(running.iter().filter(counts).map(|ran| (*ran, 1)));
        recent.service_times.sort_unstable();
        let ended_workers = recent.by_class.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>() / span;
        recent.unended_workers = (recent.busy_workers - ended_workers).max(0.0);
        recent
    }
}

/// The shortest CPU time of an unanswered request that counts as begun. A request that was shed
/// before it began shows nothing about its service time.
const BEGUN: u64 = SHORTEST;

/// A running slice that is longer than this does not count as a service time: its request cannot
/// end within the window.
const SLICE_MAX: Nanos = Nanos::from_secs(10);

/// Requests by CPU time: the time, whether they were broken off after it, and their number.
type RequestTimes = Vec<(Nanos, bool, u64)>;

/// The requests of `class` that were answered or had begun, and the total time of the class.
fn requests(bins: &[&Bins], class: usize) -> (RequestTimes, Nanos) {
    let (mut times, mut sum) = (Vec::new(), Nanos::ZERO);
    for (series, least, broken_off) in
        [(Series::stage(class, Stage::Service), 0, false), (Series::unanswered(class), BEGUN, true)]
    {
        let all = Distribution::of(bins.iter().copied(), &[series]);
        let counted = all.values().filter(|(took, _)| *took >= least);
        times.extend(counted.map(|(took, count)| (Nanos::new(took), broken_off, count)));
        sum = sum.plus(Nanos::new(all.sum));
    }
    (times, sum)
}

// A request that was broken off (expired, cancelled, failed) only shows that it would have taken
// longer. If its time counted as a service time, equal requests would look unequal. A policy could
// then let old ones yield, and more would be broken off. So the number of broken-off requests is
// spread over the requests that took longer. This is the estimate of Kaplan and Meier (1958) in the
// form of B. Efron, "The two sample problem with censored data", 1967.
/// Estimates how many requests would have taken each service time; ascending. If no request took
/// longer than a broken-off one, it counts with the time that it took.
fn served_to_the_end(mut all: RequestTimes) -> Vec<(Nanos, u64)> {
    // Among equal times, requests that ended come first, because a broken-off one would have taken
    // longer.
    all.sort_unstable();
    let mut longer: u64 = all.iter().map(|(.., count)| count).sum();
    // The weight of each later request: one for itself, plus its part of the requests that were
    // broken off before.
    let mut stands_for = 1.0;
    let mut times = Vec::with_capacity(all.len());
    for (took, broken_off, count) in all {
        longer -= count;
        if broken_off && longer > 0 {
            stands_for *= 1.0 + count as f64 / longer as f64;
        } else {
            times.push((took, (count as f64 * stands_for).round() as u64));
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collector, Recorder, Sample, WorkerMetrics};
    use forebay_clock::virtual_time;
    use std::cell::RefCell;

    // Does the time of unanswered requests count as demand of their class, once per request,
    // whichever worker ended it?
    #[test]
    fn unanswered_time_is_demand_once() {
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        for mut recorder in [0, 1].map(|worker| metrics.recorder(worker)) {
            (0..3).for_each(|_| recorder.unanswered(1, Nanos::from_millis(60)));
        }
        collector.collect();
        let Recent { by_class, times_of_class, service_times, .. } = collector.recent();
        let (count, time) = by_class[1];
        // The time is accurate to a quarter of a factor of two.
        let near = |time: Nanos| (0.83..1.2).contains(&(time.as_secs_f64() / 0.36));
        assert!(count == 6 && near(time), "{count} took {time}");
        for times in [&times_of_class[1], &service_times] {
            let sum = times.iter().map(|(time, count)| time.times(*count)).fold(Nanos::ZERO, Nanos::plus);
            assert!(near(sum), "{times:?}");
        }
        assert_eq!((by_class[0], times_of_class[0].len()), ((0, Nanos::ZERO), 0));
    }

    // Are measurements since a shift of the mix separate: service times, demand, rate and busy
    // time? Is the shift reported once, also if only broken-off requests shifted? Do later seconds
    // add up, and does the shift end after ten seconds?
    #[test]
    fn what_came_since_a_shift_is_told_apart() {
        virtual_time::set(Some(Nanos::from_secs(1_000)));
        let metrics = WorkerMetrics::new(1);
        let (mut collector, recorder) = (Collector::new(&metrics), RefCell::new(metrics.recorder(0)));
        let mut second = |busy_ms: u64, work: &dyn Fn(&mut Recorder<'_>)| {
            recorder.borrow_mut().received(1_000);
            (0..1_000).for_each(|_| work(&mut recorder.borrow_mut()));
            recorder.borrow_mut().end_slice(Nanos::from_millis(busy_ms));
            virtual_time::pass(Nanos::from_secs(1));
            collector.collect();
            let recent = collector.recent();
            let told = |recent: &Recent| {
                let requests = recent.service_times.iter().map(|(_, count)| count).sum::<u64>();
                assert_eq!(recent.by_class[0].0, requests);
                assert!((recent.rate - 1_000.0).abs() < 1.0, "{}", recent.rate);
                (requests / 1_000, (recent.busy_workers * 100.0).round())
            };
            (recent.has_shifted, told(&recent), recent.since_shift.as_deref().map(told))
        };
        let answered = |us: u64| {
            move |recorder: &mut Recorder<'_>| {
                recorder.answered(&Sample { service: Nanos::from_micros(us), ..Sample::default() });
            }
        };
        assert_eq!(second(10, &answered(10)), (false, (1, 1.0), None));
        assert_eq!(second(10, &answered(10)), (false, (2, 1.0), None));
        assert_eq!(second(460, &answered(500)), (true, (3, 16.0), Some((1, 46.0))));
        assert_eq!(second(460, &answered(500)), (false, (4, 24.0), Some((2, 46.0))));
        let broken_off = |recorder: &mut Recorder<'_>| recorder.unanswered(0, Nanos::from_millis(60));
        assert_eq!(second(860, &broken_off), (true, (5, 36.0), Some((1, 86.0))));
        for seconds in 2..=9 {
            let (has_shifted, _, since_shift) = second(860, &broken_off);
            assert_eq!((has_shifted, since_shift), (false, Some((seconds, 86.0))));
        }
        assert_eq!(second(860, &broken_off), (false, (10, 86.0), None));
        virtual_time::set(None);
    }
}

#[cfg(test)]
mod censored_tests {
    use super::*;

    fn micros(times: &[(u64, u64)]) -> Vec<(Nanos, u64)> {
        times.iter().map(|(us, count)| (Nanos::from_micros(*us), *count)).collect()
    }

    fn served_to_the_end(ended: &[(u64, u64)], broken_off: &[(u64, u64)]) -> Vec<(Nanos, u64)> {
        let of = |times, broken_off| micros(times).into_iter().map(move |(took, count)| (took, broken_off, count));
        super::served_to_the_end(of(ended, false).chain(of(broken_off, true)).collect())
    }

    // Do equal requests still look equal, whenever some are broken off?
    #[test]
    fn equal_requests_stay_equal() {
        let times = served_to_the_end(&[(500, 100)], &[(50, 60), (200, 40), (500, 1)]);
        // The last request is broken off when the others end, so no request took longer.
        assert_eq!(times, micros(&[(500, 199), (500, 2)]));
    }

    // Are broken-off requests spread over all requests that took longer, and over none that took
    // less?
    #[test]
    fn what_took_longer_stands_for_what_was_broken_off() {
        let times = served_to_the_end(&[(1, 900), (100, 60), (900, 20)], &[(10, 20)]);
        assert_eq!(times, micros(&[(1, 900), (100, 75), (900, 25)]));
        let longest = served_to_the_end(&[(1, 900)], &[(60_000, 9)]);
        assert_eq!(longest, micros(&[(1, 900), (60_000, 9)]));
        assert_eq!(served_to_the_end(&[(7, 3)], &[]), micros(&[(7, 3)]));
    }
}
