//! The results of a simulation: a fate for each request, and distributions that do not grow with the run.

use crate::fate::{CLASS_NAMES, CLASSES, Fate, Fates};
use crate::lab::stats::{Batches, Memory, PRECISION, Sample};
use crate::metrics::{ALL_CLASSES, Block, Percentile};
use crate::sched::Made;
use crate::time::Nanos;
use hdrhistogram::Histogram;

/// The fates that a simulated request can meet. It can also be dropped at a full socket.
pub const FATES: [Fate; 4] = [Fate::Answered, Fate::ShedQueueFull, Fate::ShedExpired, Fate::ShedWaited];

/// The result of a simulation. Distributions hold the requests after the warm-up; unanswered ones count as infinitely
/// slow.
#[derive(Clone, Debug)]
pub struct Tally {
    ended: [u64; Fate::ALL.len()],
    kernel_dropped: u64,
    classes: [Class; CLASSES],
    /// The values in the order of the ends of requests, for their intervals.
    streams: Box<Streams>,
    memory: Memory,
    precision: f64,
    /// When the last request ended.
    ended_at: Nanos,
    /// What the workers' time went into; none under a reference, which has no workers.
    worked: Worked,
    /// When a policy that follows measurements changed, and to what.
    changes: Vec<(Nanos, String)>,
}

/// The utilisation above which a backlog that has grown stays: what is left is the run's own beginning and end.
const SATURATED: f64 = 0.99;

/// The most changes of policy that are kept: a day has some dozens.
const CHANGES_MAX: usize = 1_000;

/// What the time of workers went into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Worked {
    pub(super) workers: u64,
    /// Steps of all workers, but for searches that found nothing.
    pub(super) busy: Nanos,
    /// The part of that which workers have cost one another at queues, sockets and the watch set.
    pub(super) contended: Nanos,
}

/// Values in their order.
#[derive(Clone, Debug, Default)]
struct Streams {
    latency_us: Batches,
    slowdown: Batches,
    /// Sums over the answered requests' costs, in seconds.
    cost_sum: f64,
    cost_squares: f64,
    answered: u64,
}

impl Streams {
    fn record(&mut self, class: u8, latency_us: f64, slowdown: f64) {
        self.latency_us.record(class, latency_us);
        self.slowdown.record(class, slowdown);
    }
}

#[derive(Clone, Debug)]
struct Class {
    /// Distributions of the answered requests; made when the first of the class is answered.
    values: Option<Box<Values>>,
    unanswered: u64,
}

#[derive(Clone, Debug)]
struct Values {
    latency_ns: Histogram<u64>,
    slowdown: Histogram<u64>,
    /// The exact sum, for the mean.
    latency_sum_ns: u128,
    slowdown_sum: f64,
}

/// Slowdowns are recorded in thousandths.
const SLOWDOWN_UNIT: f64 = 1_000.0;

/// The largest recorded value: 9.7 hours in nanoseconds, or a slowdown of 35 billion; larger ones are recorded as that.
const VALUE_MAX: u64 = 1 << 45;

impl Values {
    fn new() -> Values {
        let histogram = || Histogram::new_with_bounds(1, VALUE_MAX, 3).expect("valid bounds");
        Values { latency_ns: histogram(), slowdown: histogram(), latency_sum_ns: 0, slowdown_sum: 0.0 }
    }
}

impl Tally {
    pub(super) fn new() -> Tally {
        let classes = [(); CLASSES].map(|()| Class { values: None, unanswered: 0 });
        Tally {
            ended: [0; Fate::ALL.len()],
            kernel_dropped: 0,
            classes,
            streams: Box::default(),
            memory: Memory::UNKNOWN,
            precision: PRECISION,
            ended_at: Nanos::ZERO,
            worked: Worked::default(),
            changes: Vec::new(),
        }
    }

    /// Counts a request of `class` that cost `cost` and was answered after `latency`, at `now`.
    pub(super) fn answered(&mut self, class: u8, cost: Nanos, latency: Nanos, now: Nanos, counts: bool) {
        self.ended[Fate::Answered as usize] += 1;
        self.ended_at = self.ended_at.max(now);
        if !counts {
            return;
        }
        let values = self.classes[usize::from(class)].values.get_or_insert_with(|| Box::new(Values::new()));
        values.latency_ns.saturating_record(latency.get());
        let slowdown = latency.get() as f64 / cost.get() as f64;
        values.slowdown.saturating_record((slowdown * SLOWDOWN_UNIT).round() as u64);
        values.latency_sum_ns += u128::from(latency.get());
        values.slowdown_sum += slowdown;
        let (streams, seconds) = (&mut self.streams, cost.as_secs_f64());
        streams.record(class, latency.as_micros_f64(), slowdown);
        streams.cost_sum += seconds;
        streams.cost_squares += seconds * seconds;
        streams.answered += 1;
    }

    /// Counts a request of `class` that was not answered: it met `fate`, or was dropped at a full socket where that is
    /// `None`.
    pub(super) fn lost(&mut self, class: u8, fate: Option<Fate>, counts: bool) {
        match fate {
            Some(fate) => {
                debug_assert!(FATES.contains(&fate), "{fate:?} is not among those that are shown");
                self.ended[fate as usize] += 1;
            }
            None => self.kernel_dropped += 1,
        }
        if counts {
            self.classes[usize::from(class)].unanswered += 1;
            self.streams.record(class, f64::INFINITY, f64::INFINITY);
        }
    }

    /// The same tally, of workers that share their work at `load`. A request takes a worker `beside` longer than its
    /// cost. Intervals need both, and the run cannot show them. A percentile counts as known with an upper end of at
    /// most `precision` times the lower one.
    pub fn of_queue(self, load: f64, beside: Nanos, precision: f64) -> Tally {
        let Streams { cost_sum, cost_squares, answered, .. } = *self.streams;
        let (count, beside) = (answered.max(1) as f64, beside.as_secs_f64());
        let (mean, square) = (cost_sum / count, cost_squares / count);
        let known = Memory::of_moments(load, mean + beside, square + 2.0 * beside * mean + beside * beside);
        let memory = if answered == 0 { Memory::UNKNOWN } else { known };
        Tally { memory, precision, ..self }
    }

    /// The same tally, already [`Tally::of_queue`], where there are so many queues, one at each server.
    pub fn of_servers(self, servers: usize) -> Tally {
        Tally { memory: self.memory.of_servers(servers), ..self }
    }

    /// How all requests ended, warm-up included.
    pub fn fates(&self) -> Fates {
        Fates::new(self.ended.iter().sum(), &self.ended, Some(self.kernel_dropped))
    }

    /// When the last request was answered, after the start.
    pub fn ended_at(&self) -> Nanos {
        self.ended_at
    }

    /// Counts what more workers did.
    pub(super) fn add_worked(&mut self, more: Worked) {
        let Worked { workers, busy, contended } = &mut self.worked;
        *workers += more.workers;
        (*busy, *contended) = (busy.plus(more.busy), contended.plus(more.contended));
    }

    /// A server follows another policy from `now` on.
    pub(super) fn changed(&mut self, now: Nanos, made: &Made) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push((now, made.chosen.clone()));
        }
    }

    /// When a policy that follows measurements changed, at any server, and to what.
    pub fn changes(&self) -> &[(Nanos, String)] {
        &self.changes
    }

    /// Whether a backlog grows through the run. The latency of a class is then higher in the second half, by more than
    /// chance. Near saturation a long spell of waiting looks like that. So the run must last for 20 relaxation
    /// times, as for an interval, or leave its workers no time to catch up.
    pub fn is_unstable(&self) -> bool {
        let count = self.streams.latency_us.sample(None).count();
        let tells = self.memory.fits_into(count) || self.utilisation().is_some_and(|busy| busy > SATURATED);
        let occurs = |(_, class): &(u8, &Class)| class.values.is_some() || class.unanswered > 0;
        let mut classes = (0..).zip(&self.classes).filter(occurs);
        tells && classes.any(|(number, _)| self.latency_sample(Some(number)).grows())
    }

    /// The share of the workers' time until the last answer in which they were busy, warm-up included; `None` under a
    /// reference.
    pub fn utilisation(&self) -> Option<f64> {
        self.share_of_time(self.worked.busy)
    }

    /// The share of the workers' time until the last answer that they have cost one another, part of
    /// [`Tally::utilisation`]; `None` under a reference.
    pub fn contention(&self) -> Option<f64> {
        self.share_of_time(self.worked.contended)
    }

    fn share_of_time(&self, time: Nanos) -> Option<f64> {
        let all = self.ended_at.as_secs_f64() * self.worked.workers as f64;
        (all > 0.0).then(|| time.as_secs_f64() / all)
    }

    /// The share of requests that were answered within `limit`: of `all`, and of each class that occurred, by name.
    pub fn in_time(&self, limit: Nanos) -> Vec<(&'static str, f64)> {
        self.shares_within(|values| &values.latency_ns, limit.get())
    }

    /// The share of all requests whose slowdown is above `slowdown`, to a thousandth of it.
    pub fn share_slower_than(&self, slowdown: f64) -> f64 {
        let limit = (slowdown * SLOWDOWN_UNIT * (1.0 + 1e-3)).round() as u64;
        self.shares_within(|values| &values.slowdown, limit).first().map_or(0.0, |(_, within)| 1.0 - within)
    }

    fn shares_within(&self, of: fn(&Values) -> &Histogram<u64>, limit: u64) -> Vec<(&'static str, f64)> {
        let count = |class: &Class| {
            let answered = class.values.as_deref().map(of);
            let within = answered.map_or(0, |values| values.count_between(0, limit));
            (within, answered.map_or(0, Histogram::len) + class.unanswered)
        };
        let counts = self.classes.each_ref().map(count);
        let all = counts.iter().fold((0, 0), |all, of_class| (all.0 + of_class.0, all.1 + of_class.1));
        let named = std::iter::once((ALL_CLASSES, all)).chain(CLASS_NAMES.into_iter().zip(counts));
        let occurred = named.filter(|(_, (_, requests))| *requests > 0);
        occurred.map(|(name, (within, requests))| (name, within as f64 / requests as f64)).collect()
    }

    /// Latency in microseconds: of `all`, and of each class that occurred, by name.
    pub fn latency_us(&self) -> Vec<(&'static str, Block)> {
        self.blocks(|values| &values.latency_ns, 1e3, &self.streams.latency_us)
    }

    /// Latency over cost: of `all`, and of each class that occurred, by name.
    pub fn slowdown(&self) -> Vec<(&'static str, Block)> {
        self.blocks(|values| &values.slowdown, SLOWDOWN_UNIT, &self.streams.slowdown)
    }

    /// One percentile of the slowdown of all requests; infinite if it falls among the unanswered ones.
    pub fn slowdown_at(&self, percentile: Percentile) -> f64 {
        block(&self.histograms(|values| &values.slowdown), self.unanswered(), SLOWDOWN_UNIT)
            .percentile(percentile)
            .unwrap_or(f64::INFINITY)
    }

    /// Mean latency of the answered requests, of one class or of all; zero if there is none.
    pub fn latency_mean(&self, class: Option<u8>) -> Nanos {
        let (sum, count) = self.sums(class, |values| values.latency_sum_ns as f64);
        Nanos::new((sum / count.max(1.0)).round() as u64)
    }

    /// Mean slowdown of the answered requests, of one class or of all; zero if there is none.
    pub fn slowdown_mean(&self, class: Option<u8>) -> f64 {
        let (sum, count) = self.sums(class, |values| values.slowdown_sum);
        sum / count.max(1.0)
    }

    fn sums(&self, class: Option<u8>, sum: impl Fn(&Values) -> f64) -> (f64, f64) {
        let chosen = (0..).zip(&self.classes).filter(|(number, _)| class.is_none_or(|class| class == *number));
        let values = chosen.filter_map(|(_, class)| class.values.as_deref());
        values.fold((0.0, 0.0), |(total, count), values| (total + sum(values), count + values.latency_ns.len() as f64))
    }

    fn unanswered(&self) -> u64 {
        self.classes.iter().map(|class| class.unanswered).sum()
    }

    fn histograms(&self, of: impl Fn(&Values) -> &Histogram<u64>) -> Vec<&Histogram<u64>> {
        self.classes.iter().filter_map(|class| class.values.as_deref()).map(of).collect()
    }

    fn blocks(
        &self,
        of: impl Fn(&Values) -> &Histogram<u64> + Copy,
        unit: f64,
        stream: &Batches,
    ) -> Vec<(&'static str, Block)> {
        let whole = stream.sample(None);
        let bounds = |sample: &Sample| {
            let share = sample.count() as f64 / whole.count().max(1) as f64;
            sample.bounds(self.memory.of_share(share), self.precision)
        };
        let all = block(&self.histograms(of), self.unanswered(), unit).bounded(bounds(&whole));
        let numbered = (0..).zip(CLASS_NAMES).zip(&self.classes);
        let occurred = numbered.filter(|(_, class)| class.values.is_some() || class.unanswered > 0);
        let classes = occurred.map(|((number, name), class)| {
            let histograms: Vec<_> = class.values.as_deref().map(of).into_iter().collect();
            let bounds = bounds(&stream.sample(Some(number)));
            (name, block(&histograms, class.unanswered, unit).bounded(bounds))
        });
        std::iter::once((ALL_CLASSES, all)).chain(classes).collect()
    }

    /// The slowdowns of one class or of all, in the order of their ends.
    pub fn slowdown_sample(&self, class: Option<u8>) -> Sample {
        self.streams.slowdown.sample(class)
    }

    /// The latencies in microseconds of one class or of all, in the order of their ends.
    pub fn latency_sample(&self, class: Option<u8>) -> Sample {
        self.streams.latency_us.sample(class)
    }
}

/// The block of all values in `histograms` and of `infinite` further ones that are infinitely large.
fn block(histograms: &[&Histogram<u64>], infinite: u64, unit: f64) -> Block {
    let mut bins: Vec<(u64, u64)> = histograms
        .iter()
        .flat_map(|histogram| histogram.iter_recorded())
        .map(|bin| (bin.value_iterated_to(), bin.count_at_value()))
        .collect();
    bins.sort_unstable();
    let finite: u64 = bins.iter().map(|(_, count)| count).sum();
    let mut bins = bins.into_iter();
    let (mut seen, mut highest) = (0, 0);
    Block::from_ranks(finite, finite + infinite, |rank| {
        if rank > finite {
            return f64::INFINITY;
        }
        while seen < rank {
            let (value, count) = bins.next().expect("the bins hold `finite` values");
            (seen, highest) = (seen + count, value);
        }
        highest as f64 / unit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unanswered_are_infinitely_slow_and_the_warm_up_does_not_count() {
        let mut tally = Tally::new();
        let us = Nanos::from_micros;
        for latency in 1..=98 {
            tally.answered(0, us(1), us(latency), us(latency), true);
        }
        tally.answered(1, us(10), us(20), us(99), false);
        tally.lost(1, None, true);
        tally.lost(1, Some(Fate::ShedExpired), true);
        tally.lost(0, Some(Fate::ShedQueueFull), false);
        let kernel_dropped = Some(1);
        let fates = Fates {
            received: 101,
            answered: 99,
            shed_queue_full: 1,
            shed_expired: 1,
            kernel_dropped,
            ..Fates::default()
        };
        assert_eq!((tally.fates(), fates.arrived()), (fates, Some(102)));
        let slowdown = tally.slowdown();
        assert_eq!(slowdown.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["all", "short", "long"]);
        let (all, long) = (&slowdown[0].1, &slowdown[2].1);
        assert_eq!((all.count, all.p50, all.p99, long.count, long.p50), (98, Some(50.015), None, 0, None));
        assert!((tally.slowdown_at(Percentile::P90) / 90.0 - 1.0).abs() < 0.001);
        assert_eq!(tally.slowdown_at(Percentile::P99_9), f64::INFINITY);
        assert_eq!((tally.latency_mean(None), tally.slowdown_mean(Some(0))), (Nanos::new(49_500), 49.5));
        assert_eq!((tally.latency_mean(Some(1)), tally.ended_at()), (Nanos::ZERO, us(99)));
    }
}
