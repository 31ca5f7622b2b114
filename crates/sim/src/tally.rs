//! The results of a simulation: a fate for each request, and distributions whose size does not
//! depend on the length of the run.

use crate::stats::{Batches, Block, Memory, Sample};
use forebay_base::fate::{CLASS_NAMES, CLASSES, Fate, Fates};
use forebay_base::time::Nanos;
use forebay_metrics::{ALL_CLASSES, Percentile};
use forebay_sched::Made;
use hdrhistogram::Histogram;

/// The fates that a request can have here. A request at a full socket is dropped without one of
/// them.
pub const FATES: [Fate; 4] = [Fate::Answered, Fate::ShedQueueFull, Fate::ShedExpired, Fate::ShedWaited];

/// The result of a simulation. Distributions contain the requests after the warm-up. An unanswered
/// request counts as infinitely slow.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    ended: [u64; Fate::ALL.len()],
    kernel_dropped: u64,
    /// Requests that were answered after the deadline, or after their client had left.
    late: u64,
    /// CPU time of requests that were answered late, or begun and not answered.
    wasted: Nanos,
    /// Latencies in microseconds; infinite for what was not answered.
    pub latency_us: Figure,
    /// Latencies divided by costs; infinite for what was not answered.
    pub slowdown: Figure,
    /// Sum of the costs of answered requests, in seconds.
    cost_sum: f64,
    cost_squares: f64,
    memory: Memory,
    /// The longest wait of an answered request, warm-up included.
    waited: Nanos,
    /// When the last request ended.
    ended_at: Nanos,
    /// How the workers spent their time; zero under a reference policy, which has no workers.
    worked: Worked,
    /// Each change of a policy that follows measurements: the time, and the new policy in words.
    changes: Vec<(Nanos, String)>,
}

/// Above this utilisation, workers cannot reduce a backlog. The missing hundredth is the beginning
/// and the end of the run.
const SATURATED: f64 = 0.99;

/// The most changes of policy that are kept. A simulated day has some dozens.
const CHANGES_MAX: usize = 1_000;

/// How the workers spent their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Worked {
    pub workers: u64,
    /// Time that all workers spent on steps. A search that found nothing does not count.
    pub busy: Nanos,
    /// The part of `busy` that workers spent waiting for one another at queues, sockets and the
    /// watch set.
    pub contended: Nanos,
}

impl Tally {
    /// Counts a request of `class` with this `cost`, answered after `latency` at `now`.
    pub fn answered(&mut self, class: u8, cost: Nanos, latency: Nanos, now: Nanos, counts: bool) {
        self.ended[Fate::Answered as usize] += 1;
        self.ended_at = self.ended_at.max(now);
        self.waited = self.waited.max(latency.minus(cost));
        if !counts {
            return;
        }
        let slowdown = latency.get() as f64 / cost.get() as f64;
        self.latency_us.answered(class, latency.as_micros_f64(), latency.get());
        self.slowdown.answered(class, slowdown, (slowdown * THOUSANDTHS).round() as u64);
        let seconds = cost.as_secs_f64();
        self.cost_sum += seconds;
        self.cost_squares += seconds * seconds;
    }

    /// Counts a request of `class` with this `cost` that was answered too late.
    pub fn answered_late(&mut self, class: u8, cost: Nanos, now: Nanos, counts: bool) {
        self.lost(class, Some(Fate::Answered), cost, counts);
        self.late += 1;
        self.ended_at = self.ended_at.max(now);
    }

    /// Counts a request of `class` that was not answered, and the CPU time that it has `used`.
    /// `fate` is `None` if it was dropped before the server received it.
    pub fn lost(&mut self, class: u8, fate: Option<Fate>, used: Nanos, counts: bool) {
        self.wasted = self.wasted.plus(used);
        match fate {
            Some(fate) => {
                debug_assert!(FATES.contains(&fate), "{fate:?} is not among those that are shown");
                self.ended[fate as usize] += 1;
            }
            None => self.kernel_dropped += 1,
        }
        if counts {
            self.latency_us.unanswered(class);
            self.slowdown.unanswered(class);
        }
    }

    /// The same tally, with the memory of its queue, which widens its confidence intervals. Assumes
    /// that workers share all work at `load`, and that a request takes `beside` more than its cost.
    pub fn of_queue(self, load: f64, beside: Nanos) -> Tally {
        let (count, beside) = (self.latency_us.all().answered().max(1) as f64, beside.as_secs_f64());
        let (mean, square) = (self.cost_sum / count, self.cost_squares / count);
        let known = Memory::of_moments(load, mean + beside, square + 2.0 * beside * mean + beside * beside);
        let memory = if self.cost_sum > 0.0 { known } else { Memory::UNKNOWN };
        Tally { memory, ..self }
    }

    /// The fates of all requests, warm-up included.
    pub fn fates(&self) -> Fates {
        Fates::new(self.ended.iter().sum(), &self.ended, Some(self.kernel_dropped))
    }

    /// How many requests were answered too late, and the wasted CPU time. Time is wasted on
    /// requests that are answered too late, or begun and not answered. Includes the warm-up.
    pub fn late_and_wasted(&self) -> (u64, Nanos) {
        (self.late, self.wasted)
    }

    /// The longest wait of any request, rounded up to a microsecond. With this `--max-wait` all
    /// requests would be answered. `None` if some were not answered, or too late.
    pub fn patience(&self) -> Option<Nanos> {
        let fates = self.fates();
        let patience = Nanos::from_micros(self.waited.get().div_ceil(1_000).max(1));
        (self.late == 0 && fates.arrived() == Some(fates.answered)).then_some(patience)
    }

    /// When the last request was answered, from the start.
    pub fn ended_at(&self) -> Nanos {
        self.ended_at
    }

    /// Adds the work of more workers.
    pub fn add_worked(&mut self, more: Worked) {
        let Worked { workers, busy, contended } = &mut self.worked;
        *workers += more.workers;
        (*busy, *contended) = (busy.plus(more.busy), contended.plus(more.contended));
    }

    /// Records that a server changes its policy at `now`.
    pub fn changed(&mut self, now: Nanos, made: &Made) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push((now, made.chosen.clone()));
        }
    }

    /// All changes of policies that follow measurements, at any server: the time, and the new
    /// policy in words.
    pub fn changes(&self) -> &[(Nanos, String)] {
        &self.changes
    }

    /// Whether a backlog grows: the latency of a class is higher in the second half of the run, by
    /// more than chance. A long spell of waiting looks the same. So the run must also last 20
    /// relaxation times (README of `stats`), or keep its workers busy nearly all the time.
    pub fn is_unstable(&self) -> bool {
        let count = self.latency_us.all().requests();
        let tells = self.memory.fits_into(count) || self.utilisation().is_some_and(|busy| busy > SATURATED);
        tells && self.latency_us.occurring().any(|(number, ..)| self.latency_us.sample(Some(number)).grows())
    }

    /// The share of the workers' time in which they were busy, until the last answer and with the
    /// warm-up. `None` under a reference policy.
    pub fn utilisation(&self) -> Option<f64> {
        self.share_of_time(self.worked.busy)
    }

    /// The share of the workers' time until the last answer that they spent waiting for one
    /// another. It is part of [`Tally::utilisation`]; `None` under a reference policy.
    pub fn contention(&self) -> Option<f64> {
        self.share_of_time(self.worked.contended)
    }

    fn share_of_time(&self, time: Nanos) -> Option<f64> {
        let all = self.ended_at.as_secs_f64() * self.worked.workers as f64;
        (all > 0.0).then(|| time.as_secs_f64() / all)
    }

    /// The share of requests that were answered within `limit`: for `all`, and for each class that
    /// occurred, by name.
    pub fn in_time(&self, limit: Nanos) -> Vec<(&'static str, f64)> {
        self.latency_us.shares_within(limit.get())
    }

    /// The share of all requests whose slowdown is above `slowdown`, which is rounded to a
    /// thousandth.
    pub fn share_slower_than(&self, slowdown: f64) -> f64 {
        let limit = (slowdown * THOUSANDTHS * (1.0 + 1e-3)).round() as u64;
        self.slowdown.shares_within(limit).first().map_or(0.0, |(_, within)| 1.0 - within)
    }

    /// Latency in microseconds: of `all`, and of each class that occurred, by name.
    pub fn latency_us(&self) -> Vec<(&'static str, Block)> {
        self.latency_us.blocks(self.memory)
    }

    /// Latency over cost: of `all`, and of each class that occurred, by name.
    pub fn slowdown(&self) -> Vec<(&'static str, Block)> {
        self.slowdown.blocks(self.memory)
    }

    /// One percentile of the slowdown of all requests; infinite if it falls on an unanswered
    /// request.
    pub fn slowdown_at(&self, percentile: Percentile) -> f64 {
        self.slowdown.percentile(None, percentile)
    }

    /// Mean latency of the answered requests, of one class or of all; zero if there is none.
    pub fn latency_mean(&self, class: Option<u8>) -> Nanos {
        Nanos::new((self.latency_us.mean(class) * 1e3).round() as u64)
    }

    /// Mean slowdown of the answered requests, of one class or of all; zero if there is none.
    pub fn slowdown_mean(&self, class: Option<u8>) -> f64 {
        self.slowdown.mean(class)
    }
}

/// One figure of requests, latency or slowdown.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    classes: [ClassTally; CLASSES],
    /// The values in the order in which requests ended, for intervals.
    stream: Batches,
}

/// The values (latencies or slowdowns) of one class, or of all classes together.
#[derive(Clone, Debug, Default)]
struct ClassTally {
    /// The values of answered requests; allocated at the first answer.
    values: Option<Box<Histogram<u64>>>,
    /// The sum of `values`, for the mean.
    sum: f64,
    unanswered: u64,
}

/// Values are recorded in thousandths: nanoseconds, or thousandths of a slowdown.
const THOUSANDTHS: f64 = 1_000.0;

/// The largest recorded value: 9.7 hours in nanoseconds, or a slowdown of 35 billion. Larger values
/// are recorded as this one.
const VALUE_MAX: u64 = 1 << 45;

impl Figure {
    /// Records the value of a request of `class`, also in whole thousandths.
    fn answered(&mut self, class: u8, value: f64, thousandths: u64) {
        self.stream.record(class, value);
        let class = &mut self.classes[usize::from(class)];
        let histogram = || Box::new(Histogram::new_with_bounds(1, VALUE_MAX, 3).expect("valid bounds"));
        class.values.get_or_insert_with(histogram).saturating_record(thousandths);
        class.sum += value;
    }

    fn unanswered(&mut self, class: u8) {
        self.stream.record(class, f64::INFINITY);
        self.classes[usize::from(class)].unanswered += 1;
    }

    /// The classes that occurred, with their numbers and names.
    fn occurring(&self) -> impl Iterator<Item = (u8, &'static str, &ClassTally)> {
        let numbered = (0..).zip(CLASS_NAMES).zip(&self.classes);
        numbered.map(|((number, name), class)| (number, name, class)).filter(|(.., class)| class.requests() > 0)
    }

    fn of(&self, class: Option<u8>) -> ClassTally {
        class.map_or_else(|| self.all(), |class| self.classes[usize::from(class)].clone())
    }

    fn all(&self) -> ClassTally {
        let mut all = ClassTally::default();
        for ClassTally { values, sum, unanswered } in &self.classes {
            match (&mut all.values, values) {
                (Some(all), Some(values)) => **all += &**values,
                (none, values) => *none = none.take().or_else(|| values.clone()),
            }
            all.sum += sum;
            all.unanswered += unanswered;
        }
        all
    }

    /// The share of values up to `limit` thousandths, of `all` and of each class that occurred.
    fn shares_within(&self, limit: u64) -> Vec<(&'static str, f64)> {
        let share = |class: &ClassTally| {
            let within = class.values.as_ref().map_or(0, |values| values.count_between(0, limit));
            within as f64 / class.requests() as f64
        };
        let all = Some(self.all()).filter(|all| all.requests() > 0).map(|all| (ALL_CLASSES, share(&all)));
        all.into_iter().chain(self.occurring().map(|(_, name, class)| (name, share(class)))).collect()
    }

    /// The percentiles of `all` and of each class that occurred. The intervals depend on the
    /// `memory` of the queue.
    fn blocks(&self, memory: Memory) -> Vec<(&'static str, Block)> {
        let (all, whole) = (self.all(), self.sample(None));
        let block = |class: &ClassTally, sample: &Sample| {
            let share = sample.count() as f64 / whole.count().max(1) as f64;
            class.block().bounded(sample.bounds(memory.of_share(share)))
        };
        let classes = self.occurring();
        let classes = classes.map(|(number, name, class)| (name, block(class, &self.sample(Some(number)))));
        std::iter::once((ALL_CLASSES, block(&all, &whole))).chain(classes).collect()
    }

    fn mean(&self, class: Option<u8>) -> f64 {
        let class = self.of(class);
        class.sum / class.answered().max(1) as f64
    }

    /// One percentile; infinite if it falls on an unanswered request.
    pub fn percentile(&self, class: Option<u8>, percentile: Percentile) -> f64 {
        self.of(class).block().percentile(percentile).unwrap_or(f64::INFINITY)
    }

    /// The values of one class or of all, in the order in which requests ended.
    pub fn sample(&self, class: Option<u8>) -> Sample {
        self.stream.sample(class)
    }

    /// The values of all requests, and of each class, in batches.
    pub fn samples(&self) -> Vec<(&'static str, Sample)> {
        let classes = self.occurring().map(|(number, name, _)| (name, self.sample(Some(number))));
        std::iter::once((ALL_CLASSES, self.sample(None))).chain(classes).collect()
    }
}

impl ClassTally {
    fn answered(&self) -> u64 {
        self.values.as_ref().map_or(0, |values| values.len())
    }

    fn requests(&self) -> u64 {
        self.answered() + self.unanswered
    }

    /// The percentiles of these values. Unanswered requests count as infinite.
    fn block(&self) -> Block {
        let bins = self.values.iter().flat_map(|values| values.iter_recorded());
        let up_to = bins.scan(0, |count, bin| {
            *count += bin.count_at_value();
            Some((*count, bin.value_iterated_to()))
        });
        let mut up_to = up_to.peekable();
        Block::from_ranks(self.answered(), self.requests(), |rank| {
            while up_to.next_if(|(count, _)| *count < rank).is_some() {}
            up_to.peek().map_or(f64::INFINITY, |(_, value)| *value as f64 / THOUSANDTHS)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unanswered_are_infinitely_slow_and_the_warm_up_does_not_count() {
        let mut tally = Tally::default();
        let us = Nanos::from_micros;
        for latency in 1..=98 {
            tally.answered(0, us(1), us(latency), us(latency), true);
        }
        tally.answered(1, us(10), us(20), us(99), false);
        tally.lost(1, None, Nanos::ZERO, true);
        tally.lost(1, Some(Fate::ShedExpired), us(3), true);
        tally.lost(0, Some(Fate::ShedQueueFull), us(1), false);
        let mut fates = Fates::default();
        (fates.received, fates.answered, fates.kernel_dropped) = (101, 99, Some(1));
        (fates.shed_queue_full, fates.shed_expired) = (1, 1);
        assert_eq!((tally.fates(), fates.arrived()), (fates, Some(102)));
        assert_eq!(tally.late_and_wasted(), (0, us(4)));
        let slowdown = tally.slowdown();
        assert_eq!(slowdown.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["all", "short", "long"]);
        let (all, long) = (&slowdown[0].1, &slowdown[2].1);
        assert_eq!((all.count, all.p50, all.p99, long.count, long.p50), (98, Some(50.015), None, 0, None));
        assert!((tally.slowdown_at(Percentile::P90) / 90.0 - 1.0).abs() < 0.001);
        assert_eq!(tally.slowdown_at(Percentile::P99_9), f64::INFINITY);
        assert_eq!((tally.latency_mean(None), tally.slowdown_mean(Some(0))), (Nanos::new(49_500), 49.5));
        assert_eq!((tally.latency_mean(Some(1)), tally.ended_at()), (Nanos::ZERO, us(99)));
    }

    // Is the patience in whole microseconds, at least 1 us, and `None` if a request was not
    // answered?
    #[test]
    fn patience_answers_all() {
        let mut tally = Tally::default();
        let mut patience = |latency| {
            tally.answered(0, Nanos::new(700), Nanos::new(latency), Nanos::new(latency), true);
            tally.patience().map(Nanos::get)
        };
        assert_eq!([700, 2_701, 700].map(&mut patience), [Some(1_000), Some(3_000), Some(3_000)]);
        tally.lost(0, Some(Fate::ShedExpired), Nanos::ZERO, true);
        assert_eq!(tally.patience(), None);
    }
}
