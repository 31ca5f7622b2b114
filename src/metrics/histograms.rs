//! Histograms of one worker since it was last asked, and of all workers since the start: plain data, touched only by
//! its owner.

use super::Stage;
use super::distribution::Distribution;
use super::measured::{ClassMeasured, Measured};
use crate::fate::CLASSES;
use crate::time::Nanos;
use hdrhistogram::{Counter, Histogram};

/// Where the time of one answered request went. The total is the sum of the four stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The class of the request; numbers from [`CLASSES`] on count as the last class.
    pub class: u8,
    /// Time from the kernel's receive stamp to the batch that received the request.
    pub kernel: Nanos,
    /// Time from the receiving batch to the finish, less the service time.
    pub queue: Nanos,
    /// Time in the handler.
    pub service: Nanos,
    /// Time from the finish until the kernel has the reply.
    pub send: Nanos,
}

impl Sample {
    /// Time from the kernel's receive stamp until the kernel has the reply.
    pub const fn total(&self) -> Nanos {
        self.kernel.plus(self.queue).plus(self.service).plus(self.send)
    }

    /// The time in `stage`.
    pub const fn stage(&self, stage: Stage) -> Nanos {
        match stage {
            Stage::Total => self.total(),
            Stage::Kernel => self.kernel,
            Stage::Queue => self.queue,
            Stage::Service => self.service,
            Stage::Send => self.send,
        }
    }

    /// Slowdown (total time over service time) in thousandths; a service time too short for the clock counts as one
    /// nanosecond.
    fn slowdown_thousandths(&self) -> u64 {
        self.total().times(SLOWDOWN_ONE).get() / self.service.get().max(1)
    }
}

/// A slowdown of 1 as stored in histograms: thousandths, so that three digits survive at the low end.
pub(crate) const SLOWDOWN_ONE: u64 = 1_000;

/// Significant digits of a histogram: a percentile is at most 0.1 % above the exact one.
const DIGITS: u8 = 3;

/// Range of times in a histogram: from 16 ns (one clock read takes 20) to 1,000 s, far beyond any cost cap. A longer
/// time counts as 1,000 s.
pub(super) const TIME_NS: (u64, u64) = (16, 1_000_000_000_000);

/// Range of slowdowns in a histogram: a thousandth to a million. A larger slowdown counts as a million.
const SLOWDOWN_THOUSANDTHS: (u64, u64) = (1, 1_000_000 * SLOWDOWN_ONE);

/// The set of histograms that a worker fills. It is handed over by swap, so that no worker ever locks, shares or merges
/// histograms.
///
/// The histograms of a class exist from its first sample on: all classes together are 8 classes x (5 stages x 110 KB +
/// 90 KB), that is 5 MB, and a server holds two sets per worker, while most workloads have two classes. After the first
/// sample of every class the size is constant.
#[derive(Debug, Default)]
pub(crate) struct Histograms<C: Counter = u32> {
    classes: [Option<Box<ClassHistograms<C>>>; CLASSES],
    overshoot: Option<Box<Series<C>>>,
    records: u64,
}

/// Histograms since the start, with 64 bits per bin: 1.3 MB for a class with samples.
pub(crate) type Totals = Histograms<u64>;

impl Totals {
    /// Adds all samples of `measured`.
    pub(crate) fn absorb(&mut self, measured: &Measured) {
        for (mine, theirs) in self.classes.iter_mut().zip(&measured.classes) {
            if theirs.slowdown.count() > 0 {
                let mine = mine.get_or_insert_with(ClassHistograms::boxed);
                mine.stages.iter_mut().zip(&theirs.stages).for_each(|(mine, theirs)| mine.absorb(theirs));
                mine.slowdown.absorb(&theirs.slowdown);
                self.records += theirs.slowdown.count();
            }
        }
        if measured.overshoot.count() > 0 {
            self.overshoot.get_or_insert_with(|| Box::new(Series::of(TIME_NS))).absorb(&measured.overshoot);
            self.records += measured.overshoot.count();
        }
    }
}

impl Histograms {
    /// Records an answered request.
    pub(crate) fn record(&mut self, sample: &Sample) {
        let class = usize::from(sample.class).min(CLASSES - 1);
        self.classes[class].get_or_insert_with(ClassHistograms::boxed).record(sample);
        self.records += 1;
    }

    /// Records by how much an emulated core overslept.
    pub(crate) fn record_overshoot(&mut self, late: Nanos) {
        self.overshoot.get_or_insert_with(|| Box::new(Series::of(TIME_NS))).record(late.get());
        self.records += 1;
    }

    /// True if nothing has been recorded since the start or the last [`Histograms::reset`].
    pub(crate) fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Adds all samples of `other`.
    pub(crate) fn add(&mut self, other: &Histograms) {
        for (mine, theirs) in self.classes.iter_mut().zip(&other.classes) {
            if let Some(theirs) = theirs.as_ref().filter(|theirs| !theirs.is_empty()) {
                mine.get_or_insert_with(ClassHistograms::boxed).add(theirs);
            }
        }
        if let Some(theirs) = other.overshoot.as_ref() {
            self.overshoot.get_or_insert_with(|| Box::new(Series::of(TIME_NS))).add(theirs);
        }
        self.records += other.records;
    }

    /// Removes all samples and keeps the memory.
    pub(crate) fn reset(&mut self) {
        for class in self.classes.iter_mut().flatten() {
            class.reset();
        }
        if let Some(overshoot) = &mut self.overshoot {
            overshoot.reset();
        }
        self.records = 0;
    }
}

impl<C: Counter> Histograms<C> {
    /// The histograms of `class`; `None` if it has no sample.
    pub(crate) fn class(&self, class: usize) -> Option<&ClassHistograms<C>> {
        self.classes[class].as_deref().filter(|class| !class.is_empty())
    }

    /// Overshoot of emulated cores' sleeps, in nanoseconds; `None` if there was no sleep.
    pub(crate) fn overshoot(&self) -> Option<&Series<C>> {
        self.overshoot.as_deref()
    }
}

/// The histograms of one class.
#[derive(Debug)]
pub(crate) struct ClassHistograms<C: Counter = u32> {
    /// Times in nanoseconds, indexed by `Stage as usize`.
    pub(crate) stages: [Series<C>; Stage::ALL.len()],
    /// Slowdowns in thousandths.
    pub(crate) slowdown: Series<C>,
}

impl<C: Counter> ClassHistograms<C> {
    fn boxed() -> Box<ClassHistograms<C>> {
        Box::new(ClassHistograms {
            stages: Stage::ALL.map(|_| Series::of(TIME_NS)),
            slowdown: Series::of(SLOWDOWN_THOUSANDTHS),
        })
    }

    fn is_empty(&self) -> bool {
        self.slowdown.histogram.is_empty()
    }
}

/// Bytes of one class in one set of histograms.
pub(crate) fn class_bytes() -> usize {
    let bins = |bounds| Series::<u32>::of(bounds).histogram.distinct_values();
    (Stage::ALL.len() * bins(TIME_NS) + bins(SLOWDOWN_THOUSANDTHS)) * size_of::<u32>()
}

impl ClassHistograms {
    fn record(&mut self, sample: &Sample) {
        for (series, stage) in self.stages.iter_mut().zip(Stage::ALL) {
            series.record(sample.stage(stage).get());
        }
        self.slowdown.record(sample.slowdown_thousandths());
    }

    fn add(&mut self, other: &ClassHistograms) {
        for (mine, theirs) in self.stages.iter_mut().zip(&other.stages) {
            mine.add(theirs);
        }
        self.slowdown.add(&other.slowdown);
    }

    fn reset(&mut self) {
        self.stages.iter_mut().for_each(Series::reset);
        self.slowdown.reset();
    }
}

/// A histogram and the exact sum of its values. 32-bit counts suffice for histograms that live about a second.
#[derive(Debug)]
pub(crate) struct Series<C: Counter = u32> {
    /// Counts by bin.
    pub(crate) histogram: Histogram<C>,
    /// The sum of all recorded values, saturating.
    pub(crate) sum: u64,
}

impl<C: Counter> Series<C> {
    fn of((low, high): (u64, u64)) -> Series<C> {
        let histogram = Histogram::new_with_bounds(low, high, DIGITS).expect("both pairs of bounds are valid");
        Series { histogram, sum: 0 }
    }
}

impl Series<u64> {
    fn absorb(&mut self, distribution: &Distribution) {
        distribution.values().for_each(|(value, count)| self.histogram.saturating_record_n(value, count));
        self.sum = self.sum.saturating_add(distribution.sum());
    }
}

impl Series {
    fn record(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.sum = self.sum.saturating_add(value);
    }

    fn add(&mut self, other: &Series) {
        self.histogram.add(&other.histogram).expect("both were made with the same bounds");
        self.sum = self.sum.saturating_add(other.sum);
    }

    fn reset(&mut self) {
        // It would clear thousands of bins.
        if !self.histogram.is_empty() {
            self.histogram.reset();
        }
        self.sum = 0;
    }
}

impl<C: Counter> From<&Series<C>> for Distribution {
    fn from(series: &Series<C>) -> Distribution {
        let bins = series.histogram.iter_recorded().map(|bin| (bin.value_iterated_to(), bin.count_at_value().as_u64()));
        Distribution::new(bins, series.sum)
    }
}

impl<C: Counter> From<&Histograms<C>> for Measured {
    fn from(histograms: &Histograms<C>) -> Measured {
        let classes = std::array::from_fn(|class| {
            histograms.class(class).map_or_else(ClassMeasured::default, |class| ClassMeasured {
                stages: std::array::from_fn(|stage| Distribution::from(&class.stages[stage])),
                slowdown: Distribution::from(&class.slowdown),
            })
        });
        Measured { classes, overshoot: histograms.overshoot().map_or_else(Distribution::default, Distribution::from) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does recording keep every sample, in its class and stage, even out of range?
    #[test]
    fn every_sample_is_kept() {
        let mut histograms = Histograms::default();
        assert!(histograms.is_empty());
        histograms.record(&Sample { class: 1, service: Nanos::from_micros(10), ..Sample::default() });
        histograms.record(&Sample { class: 200, queue: Nanos::MAX, service: Nanos::new(1), ..Sample::default() });
        assert!(histograms.class(0).is_none());
        assert_eq!(histograms.class(1).expect("one sample").stages[Stage::Service as usize].sum, 10_000);
        let last = histograms.class(CLASSES - 1).expect("an unknown class counts as the last");
        assert_eq!(last.stages[Stage::Total as usize].histogram.len(), 1);
        assert!(last.stages[Stage::Total as usize].histogram.max() >= TIME_NS.1);
    }

    /// Do histograms that were reset add nothing, and histograms that were not add everything?
    #[test]
    fn add_and_reset_are_exact() {
        let sample =
            Sample { class: 0, queue: Nanos::from_micros(3), service: Nanos::from_micros(1), ..Sample::default() };
        let (mut sum, mut part) = (Histograms::default(), Histograms::default());
        part.record(&sample);
        part.record_overshoot(Nanos::from_micros(60));
        sum.add(&part);
        part.reset();
        assert!(part.is_empty() && part.class(0).is_none());
        sum.add(&part);
        let class = sum.class(0).expect("one sample");
        assert_eq!(class.slowdown.histogram.len(), 1);
        assert_eq!(class.slowdown.sum, 4 * SLOWDOWN_ONE);
        assert_eq!(sum.overshoot().expect("one sleep").sum, 60_000);
    }
}
