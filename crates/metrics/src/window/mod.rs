//! Measurements over a period: since the start, in the last seconds, or since the mix of requests
//! shifted.
//!
//! Workers fill [`Histograms`]. For each of its intervals, a [`Window`] keeps the new values as
//! [`Bins`], with the counters at the interval's start. There are three views of a window: a
//! [`Distribution`] of any classes and stages, its [`Block`](super::block::Block), and [`Recent`]
//! for policies.

mod distribution;
mod histograms;
mod recent;
mod shift;
mod work;

pub use distribution::merge;
pub(crate) use distribution::{Bins, Distribution, news};
pub use histograms::CLASS_BYTES;
pub(crate) use histograms::{Histograms, Series};
#[cfg(feature = "admin")]
pub(super) use histograms::{SHORTEST, SLOWDOWN_ONE};
pub use histograms::{Sample, Stage};
pub(crate) use recent::recent;
pub use work::Work;

use crate::counters::Counts;
use crate::time::Nanos;
use std::ops::RangeBounds;

/// A sliding window: measurements of the last `slots` intervals, each `width` long. The current
/// interval is incomplete, so the window covers `slots - 1` to `slots` widths.
///
/// A slot keeps one interval. Each starts with room for the bins of a server with few workers. When
/// one slot needs more, all slots grow, so under constant traffic the window soon has its final
/// size. A slot has at most as many bins as samples times stages, and at most 27,000 per series.
#[derive(Debug)]
pub(crate) struct Window {
    width: Nanos,
    slots: Box<[Interval]>,
    /// Number of the interval in which the current mix of requests began.
    mix: u64,
}

/// Number of bins for which a slot has room at the start. Two saturated workers with two classes
/// fill about 24,000 in a second.
const ROOM: usize = 32 * 1_024;

/// The measurements of one interval.
#[derive(Clone, Debug, Default)]
struct Interval {
    /// Number of the interval, counted from the clock's origin.
    number: u64,
    /// The counters when `bins` began to fill; `None` in an unused slot.
    begins: Option<Counts>,
    bins: Bins,
}

impl Window {
    /// A window of the last `slots` intervals of `width` each, without measurements.
    pub(super) fn new(slots: usize, width: Nanos) -> Window {
        let mut window = Window { width, slots: vec![Interval::default(); slots].into(), mix: 0 };
        window.grow(ROOM);
        window
    }

    /// Adds the values gathered between `before` and `now` to the interval that contains `now`.
    pub(super) fn add(&mut self, before: &Counts, now: Nanos, gathered: &Bins) {
        let number = self.number(now);
        let slot = &mut self.slots[(number % self.slots.len() as u64) as usize];
        if slot.begins.is_none() || slot.number != number {
            (slot.number, slot.begins) = (number, Some(before.clone()));
            slot.bins.clear();
        }
        let before = slot.bins.counts.capacity();
        slot.bins.add(gathered);
        let room = slot.bins.counts.capacity();
        if room > before {
            self.grow(room);
        }
    }

    /// The bins of the intervals that the window covers at `now`.
    pub(super) fn last(&self, now: Nanos) -> impl Iterator<Item = &Bins> {
        self.of(self.oldest(now)..)
    }

    /// The bins of a window with a single endless interval.
    pub(super) fn whole(&self) -> &Bins {
        &self.slots[0].bins
    }

    /// The bins of the intervals with these numbers.
    pub(super) fn of(&self, numbers: impl RangeBounds<u64>) -> impl Iterator<Item = &Bins> {
        let slots = self.slots.iter().filter(|slot| slot.begins.is_some());
        slots.filter(move |slot| numbers.contains(&slot.number)).map(|slot| &slot.bins)
    }

    /// The counters at the start of the first kept interval from `number` on; `None` if there is
    /// none.
    fn begin(&self, number: u64) -> Option<&Counts> {
        let slots = self.slots.iter().filter(|slot| slot.begins.is_some() && slot.number >= number);
        slots.min_by_key(|slot| slot.number)?.begins.as_ref()
    }

    /// The share of the window's time in which `workers` workers were not idle. `now` is the last
    /// reading. `None` before any time has passed.
    pub(super) fn utilisation(&self, now: &Counts, workers: usize) -> Option<f64> {
        let begin = self.begin(self.oldest(now.at))?;
        let all = now.at.minus(begin.at).as_secs_f64() * workers as f64;
        (all > 0.0).then(|| (1.0 - now.idle.minus(begin.idle).as_secs_f64() / all).max(0.0))
    }

    /// Number of the interval that contains `now`.
    pub(super) fn number(&self, now: Nanos) -> u64 {
        now.get() / self.width.get()
    }

    /// Number of the oldest interval that the window covers at `now`.
    fn oldest(&self, now: Nanos) -> u64 {
        (self.number(now) + 1).saturating_sub(self.slots.len() as u64)
    }

    /// Grows all slots to `room` bins. Writes to the memory, so that the kernel provides it now
    /// instead of during use.
    #[cold]
    fn grow(&mut self, room: usize) {
        for counts in self.slots.iter_mut().map(|slot| &mut slot.bins.counts) {
            let length = counts.len();
            counts.reserve_exact(room - length);
            counts.resize(room, (0, 0));
            counts.truncate(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::CLASSES;
    use rand::{RngExt, SeedableRng};
    use rand_distr::LogNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    const SERVICE: Series = Series::stage(0, Stage::Service);

    /// Does a window contain all values that are younger than its length and no older ones, also
    /// after a pause?
    #[test]
    fn a_window_forgets_what_is_older_than_itself() {
        let histograms = Histograms::default();
        histograms.record(&Sample::default());
        let (one, begin) = (histograms.bins(), Counts::default());
        let mut window = Window::new(10, Nanos::from_secs(1));
        let mut all = Window::new(1, Nanos::MAX);
        let mut add = |window: &mut Window, ms| {
            window.add(&begin, Nanos::from_millis(ms), &one);
            all.add(&begin, Nanos::from_millis(ms), &one);
        };
        let count = |window: &Window, ms| Distribution::of(window.last(Nanos::from_millis(ms)), &[SERVICE]).count;
        add(&mut window, 500);
        add(&mut window, 999);
        add(&mut window, 9_999);
        assert_eq!(count(&window, 9_999), 3);
        assert_eq!(count(&window, 10_000), 1, "the first second is over ten slots old");
        assert_eq!(count(&window, 18_999), 1);
        assert_eq!(count(&window, 19_000), 0);
        add(&mut window, 1_000_000);
        assert_eq!(count(&window, 1_000_001), 1);
        assert_eq!(count(&all, 1_000_001), 4, "all time has no end");
    }

    /// Does a window return all values that were added: every class and stage, counts and sums?
    #[test]
    fn a_window_keeps_everything() {
        let mut window = Window::new(6, Nanos::from_secs(10));
        let (mut all, begin, mut draw) = (Bins::default(), Counts::default(), traffic());
        for second in 0..50 {
            let bins = draw(1_000);
            all.add(&bins);
            window.add(&begin, Nanos::from_secs(second), &bins);
        }
        for class in 0..CLASSES {
            let stages = Stage::ALL.map(|stage| Series::stage(class, stage));
            for series in stages.into_iter().chain([Series::slowdown(class)]) {
                let kept = Distribution::of(window.last(Nanos::from_secs(50)), &[series]);
                assert_eq!(kept, Distribution::of([&all], &[series]));
            }
        }
        let last = Series::stage(CLASSES - 1, Stage::Service);
        assert!(all.has(SERVICE) && all.has(last) && !all.has(Series::OVERSHOOT));
        let (one, both) = (Distribution::of([&all], &[SERVICE]), Distribution::of([&all], &[SERVICE, last]));
        assert_eq!((one.count, both.count), (50 * 875, 50 * 1_000));
    }

    /// Is a window after five seconds of traffic as large as after a minute of it?
    #[test]
    fn windows_do_not_grow_with_time() {
        let mut windows = [Window::new(10, Nanos::from_secs(1)), Window::new(6, Nanos::from_secs(10))];
        let (mut draw, begin) = (traffic(), Counts::default());
        let mut sizes = (0..=60).map(|second| {
            let bins = draw(20_000);
            windows.iter_mut().for_each(|window| window.add(&begin, Nanos::from_secs(second), &bins));
            windows.iter().map(Window::bytes).sum::<usize>()
        });
        let (early, late) = (sizes.nth(5).expect("a size"), sizes.last().expect("a size"));
        assert!(early > 1_000_000, "only {early} bytes");
        assert!(late as f64 <= 1.05 * early as f64, "from {early} to {late} bytes");
    }

    impl Window {
        fn bytes(&self) -> usize {
            self.slots.iter().map(|slot| slot.bins.counts.capacity() * size_of::<(u64, u64)>()).sum()
        }
    }

    /// Draws histograms with a given number of samples in the first and the last class, with widely
    /// spread times.
    fn traffic() -> impl FnMut(u32) -> Bins {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let spread = LogNormal::new(12.0, 1.5).expect("a valid deviation");
        move |samples| {
            let histograms = Histograms::default();
            for number in 0..samples {
                let mut time = || Nanos::new(random.sample::<f64, _>(spread) as u64);
                let class = if number % 8 == 0 { CLASSES as u8 - 1 } else { 0 };
                let [kernel, queue, service, send] = [(); 4].map(|()| time());
                // As in a server, most requests have no work aside.
                let aside = if number % 16 == 0 { time() } else { Nanos::ZERO };
                let sample = Sample { class, kernel, queue, service, aside, send, late: None };
                histograms.record(&sample);
            }
            histograms.bins()
        }
    }
}
