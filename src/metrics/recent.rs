//! The work of the last seconds, as input for adaptive policies.

use super::Stage;
use super::censored::served_to_the_end;
use super::counters::Counts;
use super::distribution::Distribution;
use super::measured::Measured;
use super::unanswered::UnansweredCounts;
use super::worker_metrics::WorkerMetrics;
use crate::fate::CLASSES;
use crate::time::{Nanos, clock};
use std::collections::VecDeque;

/// Recent measurements, as input for adaptive policies.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Service times of the last 9 to 10 seconds, of all classes together, each with its number of requests, as they
    /// would be if those that were not answered had been served to their end (`censored`).
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
    /// The mean number of emulated cores that were busy with what they were charged beside handlers.
    pub charged_workers: f64,
    /// Datagrams received per second.
    pub rate: f64,
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
}

impl Reading {
    /// The counters as of now.
    pub(super) fn new(metrics: &WorkerMetrics) -> Reading {
        let Counts { busy, interruptible, idle, charged, received, .. } = metrics.counts();
        let busy = busy.into_iter().fold(Nanos::ZERO, Nanos::plus);
        Reading { at: clock::now(), busy, interruptible, idle, charged, received, unanswered: metrics.unanswered() }
    }
}

/// Readings kept: enough to cover the time of [`Recent`].
const READINGS: usize = 10;

/// Readings of the counters, one for each second of the last ten or so.
#[derive(Debug)]
pub(super) struct Readings(VecDeque<Reading>);

impl Readings {
    /// Begins with a reading.
    pub(super) fn new(first: Reading) -> Readings {
        let mut readings = VecDeque::with_capacity(READINGS + 1);
        readings.push_back(first);
        Readings(readings)
    }

    /// The work from the oldest reading to `now`, of which the answered requests have the distributions `measured`.
    pub(super) fn recent(&mut self, now: Reading, measured: &Measured, workers: usize) -> Recent {
        let before = self.0.front().expect("there is one from the start");
        let of_class = |class: usize| &measured.classes[class].stages[Stage::Service as usize];
        let times = |service: &Distribution| -> Vec<(Nanos, u64)> {
            service.values().map(|(time, count)| (Nanos::new(time), count)).collect()
        };
        let answered = (0..CLASSES).flat_map(|class| times(of_class(class))).collect();
        let mut by_class: [_; CLASSES] =
            std::array::from_fn(|class| (of_class(class).count(), Nanos::new(of_class(class).sum())));
        let (mut broken_off, mut broken_off_of_class) = (Vec::new(), [const { Vec::new() }; CLASSES]);
        for (class, spent, count) in now.unanswered.since(&before.unanswered) {
            broken_off.push((spent, count));
            broken_off_of_class[class].push((spent, count));
            by_class[class] = (by_class[class].0 + count, by_class[class].1.plus(spent.times(count)));
        }
        let service_times = served_to_the_end(answered, broken_off);
        let times_of_class = std::array::from_fn(|class| {
            served_to_the_end(times(of_class(class)), std::mem::take(&mut broken_off_of_class[class]))
        });
        let span = now.at.minus(before.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let mean = |of: fn(&Reading) -> Nanos| of(&now).minus(of(before)).as_secs_f64() / span;
        let (busy_workers, charged_workers) = (mean(|reading| reading.busy), mean(|reading| reading.charged));
        let uninterruptible_workers = (busy_workers - mean(|reading| reading.interruptible)).max(0.0);
        let between_workers = (workers as f64 - mean(|reading| reading.idle) - busy_workers).max(0.0);
        let rate = (now.received - before.received) as f64 / span;
        self.0.push_back(now);
        if self.0.len() > READINGS {
            self.0.pop_front();
        }
        Recent {
            service_times,
            by_class,
            times_of_class,
            busy_workers,
            uninterruptible_workers,
            between_workers,
            charged_workers,
            rate,
        }
    }
}
