//! The work of the last seconds, as input for adaptive policies.

use super::Stage;
use super::censored::served_to_the_end;
use super::counters::Counts;
use super::distribution::Distribution;
use super::measured::Measured;
use super::ring::Ring;
use super::shift::Profile;
use super::unanswered::UnansweredCounts;
use super::worker_metrics::WorkerMetrics;
use crate::fate::CLASSES;
use crate::time::{Nanos, clock};
use std::collections::VecDeque;

/// Recent measurements, as input for adaptive policies.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Service times of the last 9 to 10 seconds, of all classes together, each with its number of requests, as they
    /// would be if those that were not answered had been served to their end (`censored`). A slice under way that is longer than
    /// all of them counts as one more, for ten seconds.
    pub service_times: Vec<(Nanos, u64)>,
    /// The number of requests of each class, and their total service time, answered or not.
    pub by_class: [(u64, Nanos); CLASSES],
    /// The same of each class by itself.
    pub times_of_class: [Vec<(Nanos, u64)>; CLASSES],
    /// The mean number of workers in handlers during that time, also of requests that still run.
    pub busy_workers: f64,
    /// The mean number of workers that were in handlers which passed no checkpoint.
    pub uninterruptible_workers: f64,
    /// The mean number of workers that were neither in a handler nor idle: that received, chose, passed on, answered.
    pub between_workers: f64,
    /// The mean number of workers that found nothing to do.
    pub idle_workers: f64,
    /// The mean number of workers in handlers of requests that have not ended, beyond those of a time before.
    pub unended_workers: f64,
    /// The mean number of emulated cores that were busy with what they were charged beside handlers.
    pub charged_workers: f64,
    /// Datagrams received per second.
    pub rate: f64,
    /// The same since the mix of requests has shifted (`shift`), where that is less than ten seconds ago.
    pub since_shift: Option<Box<Recent>>,
    /// Whether that was in the last second.
    pub has_shifted: bool,
}

/// The counters that say how much work there was, at one time.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) at: Nanos,
    /// Time that all workers have spent on requests.
    busy: Nanos,
    /// Time of these on requests that passed checkpoints.
    interruptible: Nanos,
    /// Time in which workers found nothing to do.
    idle: Nanos,
    /// Time that emulated cores were charged beside requests.
    charged: Nanos,
    received: u64,
    unanswered: UnansweredCounts,
    /// For how long each worker that is in a slice of a job has been in it.
    running: Vec<Nanos>,
}

impl Reading {
    /// The counters as of now.
    pub(super) fn new(metrics: &WorkerMetrics) -> Reading {
        let Counts { busy, interruptible, idle, charged, received, .. } = metrics.counts();
        let busy = busy.into_iter().fold(Nanos::ZERO, Nanos::plus);
        let (at, unanswered) = (clock::now(), metrics.unanswered());
        let since = (0..metrics.workers()).filter_map(|worker| metrics.running_since(worker));
        let running = since.map(|since| at.minus(since)).collect();
        Reading { at, busy, interruptible, idle, charged, received, unanswered, running }
    }
}

/// Readings kept: enough to cover the time of [`Recent`].
const READINGS: usize = 10;

/// Readings of the counters, one for each second of the last ten or so.
#[derive(Debug)]
pub(super) struct Readings {
    readings: VecDeque<Reading>,
    /// The time of the reading, and the slot of the ring, from which on requests are of the mix of now.
    since: (Nanos, u64),
}

impl Readings {
    /// Begins with a reading.
    pub(super) fn new(first: Reading) -> Readings {
        let since = (first.at, 0);
        let mut readings = VecDeque::with_capacity(READINGS + 1);
        readings.push_back(first);
        Readings { readings, since }
    }

    /// The work from the oldest reading to `now`, of which the answered requests stand in `seconds`.
    pub(super) fn recent(&mut self, now: Reading, seconds: &Ring, workers: usize) -> Recent {
        let newest = seconds.number(now.at);
        let oldest = (newest + 1).saturating_sub(READINGS as u64);
        let answered = |from: u64, to: u64| {
            let mut answered = Measured::default();
            seconds.add_to(&mut answered, from..to, &[Stage::Service]);
            answered
        };
        let (before, last) = (answered(self.since.1.max(oldest), newest), answered(newest, newest + 1));
        let has_shifted = self.has_shifted(&before, &last, &now.unanswered);
        if has_shifted {
            self.since = (self.latest().at, newest);
        }
        let work = |since: &Reading, slot: u64| since.work_until(&now, &answered(slot, newest + 1), workers);
        let is_shorter = self.since.1 > oldest;
        let since_shift = is_shorter.then(|| Box::new(work(self.of_this_mix(), self.since.1)));
        let recent = Recent { since_shift, has_shifted, ..work(&self.readings[0], oldest) };
        self.readings.push_back(now);
        if self.readings.len() > READINGS {
            self.readings.pop_front();
        }
        recent
    }

    /// The reading of a second ago.
    fn latest(&self) -> &Reading {
        self.readings.back().expect("there is one from the start")
    }

    /// The oldest reading after which all requests are of the mix of now.
    fn of_this_mix(&self) -> &Reading {
        self.readings.iter().find(|reading| reading.at >= self.since.0).unwrap_or(self.latest())
    }

    /// Whether the requests that were answered in the `last` second, and those that ended `unanswered` in it, are others
    /// than those `before`.
    fn has_shifted(&self, before: &Measured, last: &Measured, unanswered: &UnansweredCounts) -> bool {
        let (oldest, latest) = (self.of_this_mix(), self.latest());
        let profile = |answered: &Measured, unanswered: &UnansweredCounts, since: &Reading| {
            let answered = (0..CLASSES).flat_map(|class| times(of_class(answered, class)));
            let unanswered = unanswered.since(&since.unanswered).map(|(_, spent, count)| (spent, count));
            Profile::new(answered.chain(unanswered))
        };
        profile(last, unanswered, latest).differs_from(&profile(before, &latest.unanswered, oldest))
    }
}

impl Reading {
    /// The work from this reading to `now`, of which the answered requests have the distributions `measured`.
    fn work_until(&self, now: &Reading, measured: &Measured, workers: usize) -> Recent {
        let times_of = |class: usize| -> Vec<(Nanos, u64)> { times(of_class(measured, class)).collect() };
        let answered = (0..CLASSES).flat_map(times_of).collect();
        let mut by_class: [_; CLASSES] = std::array::from_fn(|class| {
            let service = of_class(measured, class);
            (service.count(), Nanos::new(service.sum()))
        });
        let (mut broken_off, mut broken_off_of_class) = (Vec::new(), [const { Vec::new() }; CLASSES]);
        for (class, spent, count) in now.unanswered.since(&self.unanswered) {
            broken_off.push((spent, count));
            broken_off_of_class[class].push((spent, count));
            by_class[class] = (by_class[class].0 + count, by_class[class].1.plus(spent.times(count)));
        }
        let mut service_times = served_to_the_end(answered, broken_off);
        // For as long as it would if it had ended: one stuck worker must not raise bounds without end.
        let longest = service_times.last().map_or(Nanos::ZERO, |(took, _)| *took);
        let counts = |ran: &&Nanos| **ran > longest && **ran < Nanos::from_secs(READINGS as u64);
        service_times.extend(now.running.iter().filter(counts).map(|ran| (*ran, 1)));
        service_times.sort_unstable();
        let times_of_class = std::array::from_fn(|class| {
            served_to_the_end(times_of(class), std::mem::take(&mut broken_off_of_class[class]))
        });
        let span = now.at.minus(self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let mean = |of: fn(&Reading) -> Nanos| of(now).minus(of(self)).as_secs_f64() / span;
        let (busy_workers, charged_workers) = (mean(|reading| reading.busy), mean(|reading| reading.charged));
        let uninterruptible_workers = (busy_workers - mean(|reading| reading.interruptible)).max(0.0);
        let idle_workers = mean(|reading| reading.idle);
        let between_workers = (workers as f64 - idle_workers - busy_workers).max(0.0);
        let ended_workers = by_class.iter().map(|(_, time)| time.as_secs_f64()).sum::<f64>() / span;
        let unended_workers = (busy_workers - ended_workers).max(0.0);
        let rate = (now.received - self.received) as f64 / span;
        Recent {
            service_times,
            by_class,
            times_of_class,
            busy_workers,
            uninterruptible_workers,
            between_workers,
            idle_workers,
            unended_workers,
            charged_workers,
            rate,
            since_shift: None,
            has_shifted: false,
        }
    }
}

/// The service times of answered requests of `class`.
fn of_class(measured: &Measured, class: usize) -> &Distribution {
    &measured.classes[class].stages[Stage::Service as usize]
}

fn times(service: &Distribution) -> impl Iterator<Item = (Nanos, u64)> {
    service.values().map(|(time, count)| (Nanos::new(time), count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Collector, Recorder, Sample};
    use crate::time::clock::in_virtual_time;
    use std::cell::RefCell;

    // Is the time of what was not answered part of its class's demand, once for each request, on whichever worker it ended?
    #[test]
    fn unanswered_time_is_demand_once() {
        let metrics = WorkerMetrics::new(2);
        let mut collector = Collector::new(&metrics);
        for mut recorder in [0, 1].map(|worker| metrics.recorder(worker)) {
            (0..3).for_each(|_| recorder.unanswered(1, Nanos::from_millis(60)));
        }
        let Recent { by_class, times_of_class, service_times, .. } = collector.recent();
        let (count, time) = by_class[1];
        // A time is known to a quarter of an octave.
        let near = |time: Nanos| (0.83..1.2).contains(&(time.as_secs_f64() / 0.36));
        assert!(count == 6 && near(time), "{count} took {time}");
        for times in [&times_of_class[1], &service_times] {
            let sum = times.iter().map(|(time, count)| time.times(*count)).fold(Nanos::ZERO, Nanos::plus);
            assert!(near(sum), "{times:?}");
        }
        assert_eq!((by_class[0], times_of_class[0].len()), ((0, Nanos::ZERO), 0));
    }

    // Is what came since a shift of the mix told apart: service times, demand, rate and busy time? Is the shift told of once, are
    // the seconds after it added up, also when what was broken off is all that has shifted, and is it over after ten?
    #[test]
    fn what_came_since_a_shift_is_told_apart() {
        in_virtual_time::set(Some(Nanos::from_secs(1_000)));
        let metrics = WorkerMetrics::new(1);
        let (mut collector, recorder) = (Collector::new(&metrics), RefCell::new(metrics.recorder(0)));
        let mut second = |busy_ms: u64, work: &dyn Fn(&mut Recorder<'_>)| {
            recorder.borrow_mut().received(1_000);
            (0..1_000).for_each(|_| work(&mut recorder.borrow_mut()));
            recorder.borrow_mut().end_slice(Nanos::from_millis(busy_ms));
            in_virtual_time::pass(Nanos::from_secs(1));
            collector.collect(|_| recorder.borrow_mut().hand_over());
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
        in_virtual_time::set(None);
    }
}
