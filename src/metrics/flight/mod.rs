//! The flight recorder: what each worker ran of late, and which requests waited long.
//!
//! A worker writes a [`Slice`] for each stretch of time in which it ran one request. Short
//! stretches that follow one another are one slice. So nothing is left out, and a busy worker
//! writes a slice every ten microseconds at most. A request that waited for [`LONG_WAIT`] or longer
//! becomes a [`Delayed`] at its end. The control thread reads both. From the slices it tells what a
//! delayed request waited for ([`super::slow`]).

mod pen;
mod ring;
mod unfinished;

use crate::time::Nanos;
use crossbeam_queue::ArrayQueue;
use ring::{Ring, Words};
use std::hash::RandomState;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(super) use pen::Pen;
pub(crate) use unfinished::{Unfinished, Wait};

/// A request that waited for so long is delayed: a hundred light requests of a microsecond, and
/// more than a wake-up.
pub(crate) const LONG_WAIT: Nanos = Nanos::from_micros(100);
/// Memory for the slices of all workers: a second of most loads for 16 workers.
const SLICE_BYTES: usize = 8 << 20;
const SLICES_MAX: usize = 16_384;
const SLICES_MIN: usize = 1_024;
/// Delayed requests that a worker remembers until the control thread looks, a few times a second.
/// The newest stay.
pub(super) const DELAYED: usize = 256;

/// What a request is behind that waits for a permit to work uninterrupted: no request has this
/// number.
pub(crate) const PERMIT: u64 = u64::MAX;

/// A request, as the recorder knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct About {
    /// Its number: distinct in one server, never 0. See [`number`].
    pub id: u64,
    pub class: u8,
    pub came_at: Nanos,
}

/// The number of the request that `worker` received as its `count`th, counted from one.
pub(crate) fn number(worker: usize, count: u64) -> u64 {
    // A server has at most 1,024 workers, and the thread that stops them.
    count << 11 | worker as u64
}

/// The worker that received the request of this number.
pub(crate) fn receiver(id: u64) -> usize {
    (id & 0x7FF) as usize
}

/// What a slice consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// One request, which passed no checkpoint.
    #[default]
    Unchecked,
    /// One request, which passed checkpoints and ran on.
    Checked,
    /// A part of a request that ran beside it, or a task.
    Child,
    /// Several requests, each for a short time; `about.id` is their number.
    Short,
    /// No request: the worker found no packet to receive into.
    NoPacket,
    /// One request, which runs now. Whether it passes checkpoints shows at its end, or when the
    /// worker looks.
    #[cfg(feature = "admin")]
    Running,
}

#[cfg(feature = "admin")]
impl Kind {
    const ALL: [Kind; 6] = [Kind::Unchecked, Kind::Checked, Kind::Child, Kind::Short, Kind::NoPacket, Kind::Running];
}

/// A stretch of a worker's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) began: Nanos,
    pub(super) took: Nanos,
    pub(super) kind: Kind,
    pub(super) about: About,
}

impl Slice {
    pub(super) fn end(&self) -> Nanos {
        self.began.plus(self.took)
    }

    /// What it was while it still ran, at `now`.
    #[cfg(feature = "admin")]
    fn as_of(self, now: Nanos) -> Slice {
        let kind = if self.kind == Kind::Unchecked { Kind::Running } else { self.kind };
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
        Slice { began: Nanos::new(began), took, kind: Kind::ALL[usize::from(kind) % Kind::ALL.len()], about }
    }
}

/// A request that waited long, and was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delayed {
    pub about: About,
    /// The worker on which it began; after a hop the worker on which it ended.
    pub worker: u16,
    pub received_at: Nanos,
    pub ended_at: Nanos,
    /// The CPU time that it took.
    pub service: Nanos,
    /// How long it was set aside: its flow was busy, or all permits were taken.
    pub set_aside: Nanos,
    /// The request that its flow was busy with, or [`PERMIT`].
    pub behind: u64,
}

#[cfg(feature = "admin")]
impl Delayed {
    /// How long it waited.
    pub(super) fn delay(&self) -> Nanos {
        self.ended_at.minus(self.about.came_at).minus(self.service)
    }
}

/// An arrival whose request has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    pub came_at: Nanos,
    pub received_at: Nanos,
    /// The CPU time in the handler.
    pub service: Nanos,
    pub class: u8,
    /// The number of the socket that it came to.
    pub socket: u16,
    /// The number of its flow, which [`Pen::capture`] fills in.
    pub flow: u16,
    /// Whether it was served to the end: otherwise `service` says less than what it would have
    /// cost.
    pub served: bool,
}

/// What one worker has recorded.
#[derive(Debug)]
pub(crate) struct Track {
    slices: Ring,
    pub(super) delayed: ArrayQueue<Delayed>,
    /// The slice under way, as [`Slice::words`] that took no time yet; one that began at 0 is none.
    // Ordering: relaxed. A reader that sees a slice change may see words of both. It shows one
    // wrong line for a moment.
    running: [AtomicU64; 4],
    /// Whether a capture is on.
    // Ordering: relaxed. A worker that sees the flag late leaves out a request, which is then
    // counted as left out.
    pub(super) captures: AtomicBool,
    /// What ended while a capture was on. The memory is taken by the first capture, and stays.
    pub(super) ended: OnceLock<ArrayQueue<Ended>>,
    /// Requests that found no room there.
    // Ordering: relaxed, it is a count.
    pub(super) missed: AtomicU64,
    /// With the keys of this server, so that the number of a flow does not give its address away.
    hasher: RandomState,
}

impl Track {
    /// An empty one, of a server with so many workers. They share the keys of `hasher`.
    pub(super) fn new(workers: usize, hasher: RandomState) -> Track {
        Track {
            slices: Ring::new(Track::slots(workers)),
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

    /// Bytes that each of so many workers records in.
    pub(crate) fn bytes(workers: usize) -> usize {
        // A queue keeps a number beside each place.
        Track::slots(workers) * size_of::<Words>() + DELAYED * size_of::<(usize, Delayed)>()
    }

    fn run(&self, slice: &Slice) {
        self.running.iter().zip(slice.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    }

    /// The latest slices as of `now`, `most` of them and as far as the ring holds them, oldest
    /// first. A slice at 0 says that these are all.
    #[cfg(feature = "admin")]
    pub(super) fn slices(&self, most: u64, now: Nanos) -> Vec<Slice> {
        let (records, written) = self.slices.latest(most);
        let all = (records.len() as u64 == written).then(Slice::default);
        let begun = records.into_iter().map(Slice::of).filter(|slice| slice.began <= now);
        all.into_iter().chain(begun.map(|slice| if slice.end() > now { slice.as_of(now) } else { slice })).collect()
    }

    /// The slice under way, as of `now`.
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

    /// Writes what ran: number, from, to in microseconds, and whether it passed a checkpoint.
    fn written(ran: &[(u64, u64, u64, bool)]) -> Vec<(u64, u64, u64, Kind)> {
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

    // Is a request that ran on at its checkpoints one slice, and one that came back after another
    // two?
    #[test]
    fn a_slice_is_a_stretch_of_one_request() {
        let ran = [(7, 100, 150, false), (7, 152, 200, false), (8, 201, 300, false), (7, 301, 400, true)];
        let slices = [(7, 100, 100, Kind::Checked), (8, 201, 99, Kind::Unchecked), (7, 301, 99, Kind::Checked)];
        assert_eq!(written(&ran), slices);
        assert_eq!(written(&[(7, 100, 150, false), (7, 171, 200, false)]).len(), 2, "it was away for longer");
    }

    // Are short requests that follow one another one slice, up to a length, and is a pause between
    // them seen?
    #[test]
    fn short_requests_share_a_slice() {
        let short = |id: u64, from: u64| (id, from, from + 10, false);
        let ran = [short(1, 100), short(2, 111), short(3, 145), (4, 156, 251, false), short(5, 252)];
        let [two, one, last] =
            [(2, 100, 21), (1, 145, 10), (1, 252, 10)].map(|(id, from, us)| (id, from, us, Kind::Short));
        assert_eq!(written(&ran), [two, one, (4, 156, 95, Kind::Unchecked), last]);
        let many: Vec<_> = (0..100).map(|id| short(id + 1, 100 + 10 * id)).collect();
        assert_eq!(written(&many).len(), 5, "200 us each");
    }

    // Did what has ended since still run at the time that a page is of, and had what came then not
    // begun?
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
        assert_eq!(as_of(200), [(7, 50, Kind::Unchecked), (8, 50, Kind::Running)]);
        assert_eq!(as_of(250), [(7, 50, Kind::Unchecked), (8, 100, Kind::Unchecked), (9, 0, Kind::Running)]);
    }

    // Are words and records the same thing?
    #[test]
    fn records_come_back_as_they_were() {
        let slice = Slice { began: US(5), took: US(70), kind: Kind::Short, about: about(9) };
        assert_eq!(Slice::of(slice.words()), slice);
        assert_eq!([receiver(number(1_024, 5)), receiver(number(0, 1))], [1_024, 0]);
    }

    // Is the lack of packets a slice for as long as it lasts, and is what runs seen while it does?
    #[test]
    fn a_lack_of_packets_is_seen_and_so_is_what_runs() {
        let track = Track::new(1_024, RandomState::new());
        let mut pen = Pen::new(&track);
        [100, 150, 300, 900].into_iter().for_each(|now| pen.no_packet(US(now)));
        pen.rest();
        assert!(track.slices(u64::MAX, Nanos::MAX).iter().map(|slice| slice.took).eq([US(0), US(200), US(0)]));
        pen.begin(about(0), US(1_000));
        assert_eq!(track.running(US(1_070)).map(|slice| (slice.took, slice.kind)), Some((US(70), Kind::Child)));
    }
}
