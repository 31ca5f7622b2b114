//! The flight recorder: what each worker ran recently, and which requests waited long.
//!
//! A worker writes a [`Slice`] for each stretch of time in which it ran one request. Consecutive
//! short stretches share one slice. So a busy worker writes at most one slice every 10 us, and no
//! time is left out. A request that waited for [`LONG_WAIT`] or longer gives a [`Delayed`] when it
//! ends. The control thread reads both. In the slices, it finds what the delayed request waited for
//! ([`super::slow`]).

mod pen;
mod ring;
mod unfinished;

use crate::time::Nanos;
use crossbeam_queue::ArrayQueue;
use ring::{RecordRing, Words};
use std::hash::RandomState;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) use pen::Pen;
pub use unfinished::{Open, UnfinishedRequests, Wait};

/// A request that waits for this long counts as delayed. It is the time of a hundred requests of 1
/// us, and longer than a wake-up.
pub const LONG_WAIT: Nanos = Nanos::from_micros(100);
/// Memory for the slices of all workers: a second of most loads with 16 workers.
const SLICE_BYTES: usize = 8 << 20;
const SLICES_MAX: usize = 16_384;
const SLICES_MIN: usize = 1_024;
/// Number of delayed requests that each worker keeps until the control thread reads them, a few
/// times a second. New ones replace the oldest.
pub(super) const DELAYED: usize = 256;

/// Used in place of a request's number if a request waits for a permit to work uninterrupted. No
/// request has this number.
pub const PERMIT: u64 = u64::MAX;

/// A request as the recorder stores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The request's number, unique in a server and never 0; see [`number`].
    pub id: u64,
    /// The class, 0 to 7.
    pub class: u8,
    /// When the request reached the host, on the clock of [`now`](forebay_clock::now).
    pub came_at: Nanos,
}

/// The number of the request that `worker` received as its `count`th, counted from 1.
#[inline]
pub fn number(worker: usize, count: u64) -> u64 {
    // 11 bits for the worker: there are at most 1,024 workers, and the thread that stops them.
    count << 11 | worker as u64
}

/// The worker that received the request with this number.
pub fn receiver(id: u64) -> usize {
    (id & 0x7FF) as usize
}

/// What a worker did in a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SliceKind {
    /// The worker ran one request, which passed no checkpoint.
    #[default]
    Unchecked,
    /// The worker ran one request, which passed checkpoints and continued.
    Checked,
    /// The worker ran a child of a request, or a task.
    Child,
    /// The worker ran several requests, each for a short time; `about.id` is their number.
    Short,
    /// The worker ran no request: it found no free packet to receive into.
    NoPacket,
    /// The worker runs one request now. Whether it passes checkpoints is known only once it reaches
    /// one, or at its end.
    #[cfg(feature = "admin")]
    Running,
}

#[cfg(feature = "admin")]
impl SliceKind {
    const ALL: [SliceKind; 6] = [
        SliceKind::Unchecked,
        SliceKind::Checked,
        SliceKind::Child,
        SliceKind::Short,
        SliceKind::NoPacket,
        SliceKind::Running,
    ];
}

/// A stretch of a worker's time, and what the worker did in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) began: Nanos,
    pub(super) took: Nanos,
    pub(super) kind: SliceKind,
    pub(super) about: About,
}

impl Slice {
    pub(super) fn end(&self) -> Nanos {
        self.began.plus(self.took)
    }

    /// The slice as it looked at `now`, while it was still in progress.
    #[cfg(feature = "admin")]
    fn as_of(self, now: Nanos) -> Slice {
        let kind = if self.kind == SliceKind::Unchecked { SliceKind::Running } else { self.kind };
        Slice { took: now.minus(self.began), kind, ..self }
    }

    fn words(&self) -> Words {
        let About { id, class, came_at } = self.about;
        [self.began.get(), self.took.get() << 16 | u64::from(class) << 8 | self.kind as u64, id, came_at.get()]
    }

    #[cfg(feature = "admin")]
    fn of(words: Words) -> Slice {
        let [began, mixed, id, came_at] = words;
        let [kind, class, ..] = mixed.to_le_bytes();
        let (about, took) = (About { id, class, came_at: Nanos::new(came_at) }, Nanos::new(mixed >> 16));
        Slice { began: Nanos::new(began), took, kind: SliceKind::ALL[usize::from(kind) % SliceKind::ALL.len()], about }
    }
}

/// A request that waited long and was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delayed {
    /// The request.
    pub about: About,
    /// The worker on which the request began; after a hop, the worker on which it ended.
    pub worker: u16,
    /// When its worker received it.
    pub received_at: Nanos,
    /// When it ended.
    pub ended_at: Nanos,
    /// The CPU time of the request.
    pub service: Nanos,
    /// How long the request's work aside waited for a helper.
    pub for_helper: Nanos,
    /// How long the request's work aside was on a helper.
    pub on_helper: Nanos,
    /// The part of `on_helper` in which the helper had a CPU.
    pub helper_cpu: Nanos,
    /// How long the request was set aside, because its flow was busy or all permits were taken.
    pub set_aside: Nanos,
    /// The number of the request of the same flow that ran meanwhile, or [`PERMIT`].
    pub behind: u64,
    /// The shard of its flow, if it has one.
    pub shard: Option<u32>,
}

#[cfg(feature = "admin")]
impl Delayed {
    /// How long the request waited: neither a worker nor a helper worked for it.
    pub(super) fn delay(&self) -> Nanos {
        self.ended_at.minus(self.about.came_at).minus(self.service).minus(self.helper_cpu)
    }
}

/// A request that ended during a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// When the request reached the host, on the clock of [`now`](forebay_clock::now).
    pub came_at: Nanos,
    /// When its worker received it.
    pub received_at: Nanos,
    /// The CPU time in the handler.
    pub service: Nanos,
    /// The class, 0 to 7.
    pub class: u8,
    /// Number of the socket that received the request.
    pub socket: u16,
    /// A number that stands for the request's flow. The recorder fills it in.
    pub flow: u16,
    /// A number that stands for the client's network. The recorder fills it in.
    pub source: u16,
    /// Whether the request was served to the end. Otherwise `service` is less than its full cost.
    pub served: bool,
}

/// The slices and requests that one worker has recorded.
#[derive(Debug)]
pub struct Track {
    slices: RecordRing,
    pub(super) delayed: ArrayQueue<Delayed>,
    /// The slice in progress, as [`Slice::words`] with no time yet. A start of 0 means that there
    /// is none.
    // Ordering: relaxed. If a reader reads during a change, it may mix words of two slices, and
    // shows one wrong line for a moment.
    running: [AtomicU64; 4],
    /// Whether a capture is in progress.
    // Ordering: relaxed. If a worker sees the flag late, it omits a request, which then counts as
    // left out.
    pub(super) captures: AtomicBool,
    /// Requests that ended during a capture. The first capture allocates the memory, which stays.
    pub(super) ended: OnceLock<ArrayQueue<Ended>>,
    /// Requests that found no room in `ended`.
    // Ordering: relaxed, because it is only a count.
    pub(super) missed: AtomicU64,
    /// Hashes flows with secret keys, so that a flow's number does not reveal its address.
    hasher: RandomState,
}

impl Track {
    /// An empty track for one of `workers` workers, which all share the keys of `hasher`.
    pub(super) fn new(workers: usize, hasher: RandomState) -> Track {
        Track {
            slices: RecordRing::new(Track::slots(workers)),
            delayed: ArrayQueue::new(DELAYED),
            running: Default::default(),
            captures: AtomicBool::new(false),
            ended: OnceLock::new(),
            missed: AtomicU64::new(0),
            hasher,
        }
    }

    pub(super) fn slots(workers: usize) -> usize {
        let slots = SLICE_BYTES / size_of::<Words>() / workers.max(1);
        1 << slots.clamp(SLICES_MIN, SLICES_MAX).ilog2()
    }

    /// Memory of one worker's track, in bytes, on a server with this many workers.
    pub fn bytes(workers: usize) -> usize {
        // The queue stores a number with each place.
        Track::slots(workers) * size_of::<Words>() + DELAYED * size_of::<(usize, Delayed)>()
    }

    fn run(&self, slice: &Slice) {
        self.running.iter().zip(slice.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// Up to `most` of the latest slices that the ring still holds, as of `now`, oldest first. If
    /// none was overwritten yet, the first slice is an empty one that begins at 0.
    #[cfg(feature = "admin")]
    pub(super) fn slices(&self, most: u64, now: Nanos) -> Vec<Slice> {
        let (records, written) = self.slices.latest(most);
        let all = (records.len() as u64 == written).then(Slice::default);
        let begun = records.into_iter().map(Slice::of).filter(|slice| slice.began <= now);
        all.into_iter().chain(begun.map(|slice| if slice.end() > now { slice.as_of(now) } else { slice })).collect()
    }

    /// The slice in progress, as of `now`.
    #[cfg(feature = "admin")]
    pub(super) fn running(&self, now: Nanos) -> Option<Slice> {
        let slice = Slice::of(self.running.each_ref().map(|word| word.load(Ordering::Relaxed)));
        (slice.began > Nanos::ZERO).then(|| slice.as_of(now))
    }
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    fn about(id: u64) -> About {
        About { id, class: 3, came_at: US(1) }
    }

    /// Records runs, each with number, start and end in microseconds, and whether it passed a
    /// checkpoint.
    fn written(ran: &[(u64, u64, u64, bool)]) -> Vec<(u64, u64, u64, SliceKind)> {
        let track = Track::new(1, RandomState::new());
        let mut pen = Pen::new(&track);
        for &(id, from, to, checked) in ran {
            pen.begin(about(id), US(from));
            pen.end(checked, US(to));
        }
        pen.rest();
        assert_eq!(track.running(US(9_999)), None, "it rests");
        let us = |time: Nanos| time.get() / 1_000;
        let line = |slice: Slice| (slice.about.id, us(slice.began), us(slice.took), slice.kind);
        track.slices(u64::MAX, Nanos::MAX).into_iter().skip(1).map(line).collect()
    }

    // Is a request that continues at its checkpoints one slice, and a request that resumes after
    // another one two?
    #[test]
    fn a_slice_is_a_stretch_of_one_request() {
        let ran = [(7, 100, 150, false), (7, 152, 200, false), (8, 201, 300, false), (7, 301, 400, true)];
        let slices =
            [(7, 100, 100, SliceKind::Checked), (8, 201, 99, SliceKind::Unchecked), (7, 301, 99, SliceKind::Checked)];
        assert_eq!(written(&ran), slices);
        assert_eq!(written(&[(7, 100, 150, false), (7, 171, 200, false)]).len(), 2, "it was away for longer");
    }

    // Do consecutive short requests share a slice, up to a length? Does a pause end it?
    #[test]
    fn short_requests_share_a_slice() {
        let short = |id: u64, from: u64| (id, from, from + 10, false);
        let ran = [short(1, 100), short(2, 111), short(3, 145), (4, 156, 251, false), short(5, 252)];
        let [two, one, last] =
            [(2, 100, 21), (1, 145, 10), (1, 252, 10)].map(|(id, from, us)| (id, from, us, SliceKind::Short));
        assert_eq!(written(&ran), [two, one, (4, 156, 95, SliceKind::Unchecked), last]);
        let many: Vec<_> = (0..100).map(|id| short(id + 1, 100 + 10 * id)).collect();
        assert_eq!(written(&many).len(), 5, "200 us each");
    }

    // As of an earlier time, do slices that have ended since still run, and are slices that began
    // since absent?
    #[test]
    fn slices_are_those_of_one_time() {
        let track = Track::new(1, RandomState::new());
        let mut pen = Pen::new(&track);
        for (id, from, to) in [(7, 100, 150), (8, 150, 250), (9, 250, 300)] {
            pen.begin(about(id), US(from));
            pen.end(false, US(to));
        }
        pen.rest();
        let as_of = |now| -> Vec<_> {
            let slices = track.slices(u64::MAX, US(now)).into_iter().skip(1);
            slices.map(|slice| (slice.about.id, slice.took.get() / 1_000, slice.kind)).collect()
        };
        assert_eq!(as_of(200), [(7, 50, SliceKind::Unchecked), (8, 50, SliceKind::Running)]);
        assert_eq!(
            as_of(250),
            [(7, 50, SliceKind::Unchecked), (8, 100, SliceKind::Unchecked), (9, 0, SliceKind::Running)]
        );
    }

    // Do slices survive the conversion to words and back?
    #[test]
    fn records_come_back_as_they_were() {
        let slice = Slice { began: US(5), took: US(70), kind: SliceKind::Short, about: about(9) };
        assert_eq!(Slice::of(slice.words()), slice);
        assert_eq!([receiver(number(1_024, 5)), receiver(number(0, 1))], [1_024, 0]);
        assert_eq!([0, 1, 16, 17, 100, 1_024].map(Track::slots), [16_384, 16_384, 16_384, 8_192, 2_048, 1_024]);
    }

    // Does a lack of packets give one slice, however long it lasts? Are runs during this time
    // recorded too?
    #[test]
    fn a_lack_of_packets_is_seen_and_so_is_what_runs() {
        let track = Track::new(1_024, RandomState::new());
        let mut pen = Pen::new(&track);
        [100, 150, 300, 900].into_iter().for_each(|now| pen.no_packet(US(now)));
        pen.rest();
        assert!(track.slices(u64::MAX, Nanos::MAX).iter().map(|slice| slice.took).eq([US(0), US(200), US(0)]));
        pen.begin(about(0), US(1_000));
        assert_eq!(track.running(US(1_070)).map(|slice| (slice.took, slice.kind)), Some((US(70), SliceKind::Child)));
    }
}
