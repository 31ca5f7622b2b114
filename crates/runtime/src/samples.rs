//! Samples of who uses the workers' CPU time, for the thread that decides which sources are
//! limited.
//!
//! A worker counts the time of its requests. Each time the sum passes a multiple of `QUANTUM`,
//! the source of the request at hand is one sample. So a source has samples in proportion to its
//! CPU time, however many sources there are.

use crate::sched::overload::Stay;
use crate::sched::overload::sources::{Controller, DECIDE_EVERY, Part, Rules, Sample, Standing};
use crate::time::Nanos;
use arc_swap::ArcSwap;
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use forebay_base::source::SourcePrefix;
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The CPU time of one sample: 2,500 in a quarter of a second, which tell 1 % of a worker's time
/// from 1.2 %.
const QUANTUM: u64 = 100_000;
/// Requests that were shed, for each sample.
const SHED: u64 = 4;
/// More samples than a worker makes between two readings.
const PLACES: usize = 1 << 12;
/// The most samples of one slice: a longer one, 0.4 s, says no more.
const OF_SLICE: u64 = 1 << 12;

/// The samples of all workers.
#[derive(Debug)]
pub struct Samples {
    rings: Box<[CachePadded<SampleRing>]>,
    bits: SourcePrefix,
    /// What the kernel and the worker take for each datagram beside its service.
    beside: Nanos,
    /// When the gate changed last. What came before says nothing of what it lets in now.
    changed_at: AtomicU64,
    /// What it lets in.
    gate: ArcSwap<Rules>,
}

/// The samples of one worker, the oldest overwritten.
// Ordering: relaxed for numbers and flags, which guard nothing.
#[derive(Debug)]
struct SampleRing {
    /// `None` where no samples are wanted.
    samples: Option<ArrayQueue<Sample>>,
    /// Requests shed from sockets that stand, since the last reading: all, and those that came
    /// since the gate changed.
    shed: [AtomicU64; 2],
    /// Whether the queues of continuations stand.
    stands: AtomicBool,
}

impl Samples {
    /// Room for samples of `workers` workers, and of the thread that stops them; for none unless it
    /// is `on`.
    pub fn new(workers: usize, beside: Nanos, bits: SourcePrefix, on: bool) -> Samples {
        let samples = || on.then(|| ArrayQueue::new(PLACES));
        let ring =
            |_| SampleRing { samples: samples(), shed: Default::default(), stands: AtomicBool::new(false) }.into();
        let rings = (0..=workers).map(ring).collect();
        Samples { rings, bits, beside, changed_at: AtomicU64::new(0), gate: ArcSwap::default() }
    }

    /// The controller of a gate that decides by these samples, with memory for this part of the
    /// most rules.
    pub fn controller(&self, scale: f64) -> Controller {
        let of = |time: Nanos| time.get() as f64 / QUANTUM as f64;
        // One ring is that of the thread that stops the workers.
        let workers = self.rings.len() as u64 - 1;
        Controller::new(of(DECIDE_EVERY.times(workers)), of(self.beside), scale)
    }

    /// The only sampler of `worker`.
    pub fn sampler(&self, worker: usize) -> Sampler<'_> {
        let ring = &*self.rings[worker];
        // Without a place for it, no sample is ever due.
        let left = if ring.samples.is_none() { u64::MAX } else { QUANTUM };
        Sampler { ring, beside: self.beside, changed_at: &self.changed_at, left: [left; 3] }
    }

    /// Hands each sample to `take`.
    pub fn read(&self, take: impl FnMut(Sample)) {
        let rings = self.rings.iter().filter_map(|ring| ring.samples.as_ref());
        rings.flat_map(|samples| iter::from_fn(|| samples.pop())).for_each(take);
    }

    /// The queues from which something was shed since the last call. Then the number of requests
    /// shed before they began: all, and those that came since the gate changed.
    pub fn standing(&self) -> (Standing, [u64; 2]) {
        let stands = self.rings.iter().any(|ring| ring.stands.load(Ordering::Relaxed));
        let taken = |which: usize| self.rings.iter().map(|ring| ring.shed[which].swap(0, Ordering::Relaxed)).sum();
        let shed = [taken(0), taken(1)];
        let standing = match (shed[0], stands) {
            (1.., _) => Standing::Fresh,
            (0, true) => Standing::Continuations,
            (0, false) => Standing::None,
        };
        (standing, shed)
    }

    /// The gate follows `rules` from `now` on.
    pub fn gate_changed(&self, rules: Rules, now: Nanos) {
        self.gate.store(Arc::new(rules));
        self.changed_at.store(now.get(), Ordering::Relaxed);
    }

    /// The prefix of the network of `source`.
    pub fn prefix(&self, source: IpAddr) -> u64 {
        self.bits.of(source)
    }

    /// Whether the gate limits the source with this `prefix`.
    pub fn limits(&self, prefix: u64) -> bool {
        self.gate.load().share(prefix) < 1.0
    }
}

/// A worker's handle to its samples.
#[derive(Debug)]
pub struct Sampler<'r> {
    ring: &'r SampleRing,
    beside: Nanos,
    changed_at: &'r AtomicU64,
    /// Time until the next sample, until the next one of what was refused, and of what was shed.
    left: [u64; 3],
}

impl Sampler<'_> {
    /// Counts the `time` that the request of `stay` ran for: since it began, if it `begins`, and to
    /// its end, if it `ended`.
    #[inline]
    pub fn spend(&mut self, time: Nanos, begins: bool, ended: bool, prefix: impl FnOnce() -> u64, stay: &Stay) {
        let time = if begins { time.plus(self.beside) } else { time };
        let part = match stay.in_line {
            0 => Part::First { begun: begins.into(), ended: ended.into() },
            _ => Part::Later,
        };
        self.count(time, part, prefix, stay.validated);
    }

    /// Counts what a datagram took that was no request.
    pub fn turn_away(&mut self, prefix: impl FnOnce() -> u64) {
        self.count(self.beside, Part::First { begun: 0.0, ended: 0.0 }, prefix, false);
    }

    /// Counts the `time` that the request of `stay` would have taken, which was refused as a heavy
    /// one.
    #[cold]
    pub fn refuse(&mut self, time: Nanos, prefix: impl FnOnce() -> u64, stay: &Stay) {
        if self.is_since(stay.came_at) {
            let unbegun = (Nanos::new(QUANTUM / SHED), Part::Unbegun { requests: 1.0 });
            let (time, part) = if stay.has_begun() { (time, Part::Refused) } else { unbegun };
            self.count(time, part, prefix, stay.validated);
        }
    }

    #[inline]
    fn count(&mut self, time: Nanos, part: Part, prefix: impl FnOnce() -> u64, validated: bool) {
        let left = &mut self.left[kind(part)];
        match left.checked_sub(time.get()) {
            Some(rest) => *left = rest,
            None => self.sample(time.get(), part, prefix(), validated),
        }
    }

    #[cold]
    fn sample(&mut self, time: u64, mut part: Part, prefix: u64, validated: bool) {
        let kind = kind(part);
        let left = &mut self.left[kind];
        let over = time - *left;
        *left = QUANTUM - over % QUANTUM;
        let count = (1 + over / QUANTUM).min(OF_SLICE) as u32;
        // A sample for each quantum stands for so many requests that took as long.
        let each = count as f32 * QUANTUM as f32 / time as f32;
        match &mut part {
            Part::First { begun, ended } => (*begun, *ended) = (*begun * each, *ended * each),
            Part::Unbegun { requests } => *requests *= each,
            Part::Later | Part::Refused => {}
        }
        // A worker refuses many more requests than it serves. These leave half of the places to the
        // others.
        if let Some(ring) = self.ring.samples.as_ref().filter(|ring| kind == 0 || ring.len() < PLACES / 2) {
            ring.force_push(Sample { prefix, validated, part, count });
        }
    }

    /// Whether what came at `came_at` came since the gate changed.
    fn is_since(&self, came_at: Nanos) -> bool {
        came_at.get() >= self.changed_at.load(Ordering::Relaxed)
    }

    /// Notes that the request of `stay` was shed from a socket that stands.
    pub fn shed(&mut self, prefix: impl FnOnce() -> u64, stay: &Stay) {
        let [all, since] = &self.ring.shed;
        all.fetch_add(1, Ordering::Relaxed);
        since.fetch_add(u64::from(self.is_since(stay.came_at)), Ordering::Relaxed);
        self.refuse(Nanos::ZERO, prefix, stay);
    }

    /// Notes whether the queues of continuations stand.
    pub fn continuations_stand(&self, stand: bool) {
        self.ring.stands.store(stand, Ordering::Relaxed);
    }
}

/// Which samples are drawn together.
fn kind(part: Part) -> usize {
    match part {
        Part::First { .. } | Part::Later => 0,
        Part::Refused => 1,
        Part::Unbegun { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BITS: SourcePrefix = SourcePrefix::NETWORK;

    // Has each source samples in proportion to its time, also a slice of many quanta, and is
    // nothing read twice? Do they tell how many requests began and ended before they stepped aside?
    #[test]
    fn samples_are_in_proportion_to_time() {
        let samples = Samples::new(2, Nanos::from_micros(3), BITS, true);
        let mut sampler = samples.sampler(1);
        let [light, heavy] = ["192.0.2.9", "2001:db8::1"].map(|text| samples.prefix(text.parse().expect("an address")));
        let sums = || {
            let (mut sums, mut first) = ([0; 4], [[0.0; 2]; 2]);
            samples.read(|Sample { prefix, validated, part, count }| {
                let of = usize::from(prefix != light);
                assert!(of == 0 || prefix == heavy);
                sums[if part == Part::Refused { 3 } else { of }] += count;
                sums[2] += u32::from(validated) * count;
                match part {
                    Part::First { begun, ended } => first[of] = [first[of][0] + begun, first[of][1] + ended],
                    Part::Unbegun { requests } => first[of][0] += requests,
                    Part::Later | Part::Refused => {}
                }
            });
            (sums, first)
        };
        let begun = Stay::new(Nanos::ZERO);
        let aside = Stay { in_line: 1, validated: true, ..begun };
        for number in 0..10_000 {
            sampler.spend(Nanos::from_micros(7), true, number % 4 > 0, || light, &begun);
            if number % 100 == 0 {
                sampler.spend(Nanos::from_micros(997), true, false, || heavy, &begun);
                sampler.spend(Nanos::from_millis(29), false, true, || heavy, &aside);
            }
            if number % 10 == 0 {
                sampler.turn_away(|| light);
            }
        }
        let ([of_light, of_heavy, validated, refused], first) = sums();
        assert!((1_010..=1_050).contains(&of_light) && (29_990..=30_010).contains(&of_heavy), "{of_light}, {of_heavy}");
        assert!((28_990..=29_010).contains(&validated), "{validated}");
        let near = |counted: f32, number: f32| (counted - number).abs() <= number * 0.03;
        let [[begun_light, ended_light], [begun_heavy, ended_heavy]] = first;
        assert!(near(begun_light, 10_000.0) && near(ended_light, 7_500.0), "{begun_light}, {ended_light}");
        assert!(near(begun_heavy, 100.0) && ended_heavy == 0.0, "{begun_heavy}, {ended_heavy}");
        assert_eq!((refused, sums()), (0, ([0; 4], [[0.0; 2]; 2])));
        assert_eq!(samples.standing(), (Standing::None, [0, 0]));
        sampler.continuations_stand(true);
        let rules = Rules { limited: vec![(light, 0.5)], ..Rules::OPEN };
        samples.gate_changed(rules, Nanos::from_secs(5));
        assert_eq!([light, heavy].map(|source| samples.limits(source)), [true, false]);
        let came = |second| Stay::new(Nanos::from_secs(second));
        (3..17).for_each(|second| sampler.shed(|| heavy, &came(second)));
        assert_eq!(samples.standing(), (Standing::Fresh, [14, 12]));
        assert_eq!(sums().1[1], [8.0, 0.0], "one for four of those that came since the gate changed");
        (0..10).for_each(|second| {
            sampler.refuse(Nanos::from_millis(3), || heavy, &Stay { service: Nanos::from_micros(1), ..came(second) });
        });
        assert_eq!(sums().0, [0, 0, 0, 150], "those that came since the gate changed");
        assert_eq!(samples.standing(), (Standing::Continuations, [0, 0]));
        sampler.continuations_stand(false);
        assert_eq!(samples.standing(), (Standing::None, [0, 0]));
        let off = Samples::new(1, Nanos::ZERO, BITS, false);
        off.sampler(0).spend(Nanos::from_secs(1_000), true, true, || light, &begun);
    }
}
