//! How arms are compared: in turn, round after round, so that all meet the same disturbances. A figure is the median of the
//! rounds with the least and the largest; a ratio is of figures of the same round.

use forebay::time::clock;
use std::sync::Barrier;
use std::thread;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    /// Enough for figures.
    Full,
    /// As little as shows that all works and that every result is right: figures mean nothing.
    Check,
}

impl Size {
    pub(crate) fn of<T>(self, full: T, check: T) -> T {
        match self {
            Size::Full => full,
            Size::Check => check,
        }
    }
}

/// One figure of each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures(Vec<f64>);

/// One thing to be compared: each call measures once, and gives a figure for each of `K` quantities.
pub(crate) type Arm<'a, const K: usize = 1> = Box<dyn FnMut() -> [f64; K] + 'a>;

/// Measures all `arms` in turn, each round beginning with another.
pub(crate) fn interleaved<const K: usize>(size: Size, mut arms: Vec<Arm<'_, K>>) -> Vec<[Figures; K]> {
    let mut figures = vec![[const { Figures(Vec::new()) }; K]; arms.len()];
    // Odd, so that the median is the figure of one round.
    for round in 0..size.of(11, 1) {
        for turn in 0..arms.len() {
            let arm = (turn + round) % arms.len();
            let measured = arms[arm]();
            figures[arm].iter_mut().zip(measured).for_each(|(figures, figure)| figures.0.push(figure));
        }
    }
    figures
}

impl Figures {
    pub(crate) fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    /// The ratio of each round's figure to that of `other`.
    pub(crate) fn over(&self, other: &Figures) -> Figures {
        Figures(self.0.iter().zip(&other.0).map(|(mine, theirs)| mine / theirs).collect())
    }

    /// Median, least and largest.
    pub(crate) fn text(&self) -> String {
        let sorted = self.sorted();
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        let digits = digits(most);
        format!("{:.digits$} ({least:.digits$}-{most:.digits$})", self.median())
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }
}

/// Decimal places that leave a figure of this size three digits.
fn digits(figure: f64) -> usize {
    if figure >= 99.5 {
        0
    } else if figure >= 9.95 {
        1
    } else {
        2
    }
}

/// A figure with three digits.
pub(crate) fn text(figure: f64) -> String {
    format!("{figure:.0$}", digits(figure))
}

/// Nanoseconds that `action` takes.
pub(crate) fn ns(action: impl FnOnce()) -> f64 {
    let start = clock::now();
    action();
    clock::now().minus(start).get() as f64
}

/// Nanoseconds in which `work`, called with the number of each of `threads` threads, ends on all of them.
pub(crate) fn on_threads(threads: usize, work: impl Fn(usize) + Sync) -> f64 {
    let start = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let start_of = |number| {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                start.wait();
                work(number);
            })
        };
        let workers: Vec<_> = (0..threads).map(start_of).collect();
        // All wait for this thread, so that none can begin before the clock is read.
        ns(|| {
            start.wait();
            workers.into_iter().for_each(|worker| worker.join().expect("no job is lost"));
        })
    })
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Numbers without a pattern, the same in each run.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: usize) -> Draw {
        Draw((seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Work of about 1.3 ns for each operation: a chain of dependent multiplications. Returns a number that depends on all.
pub(crate) fn operations(count: u64) -> u64 {
    let mut value = count | 1;
    for _ in 0..count {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
    value
}
