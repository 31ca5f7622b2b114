//! The unfinished requests. Each packet has a mark. It is written when the packet's request is
//! admitted, when the cause of its wait changes, and when it ends. Only scrapes read marks.

use super::About;
use crate::fate::CLASSES;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// What a request waits for, if it does not simply wait for a free worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The end of an earlier request of its flow, in the shard of this number.
    Flow(u32),
    /// A permit to work uninterrupted, that is, for long without a checkpoint.
    Permit,
    /// The end of its work aside, in this place of the ledger of helpers.
    Aside(u32),
}

/// From this number on, a number stands for [`Wait::Aside`]. There are at most 65,536 shards.
const ASIDE: u32 = 1 << 17;

impl Wait {
    /// As a number; 0 = none.
    fn number(wait: Option<Wait>) -> u32 {
        match wait {
            None => 0,
            Some(Wait::Permit) => 1,
            Some(Wait::Flow(shard)) => shard + 2,
            Some(Wait::Aside(place)) => place + ASIDE,
        }
    }

    fn of(number: u32) -> Option<Wait> {
        match number {
            0 => None,
            1 => Some(Wait::Permit),
            2..ASIDE => Some(Wait::Flow(number - 2)),
            ASIDE.. => Some(Wait::Aside(number - ASIDE)),
        }
    }
}

/// The unfinished requests of one server.
#[derive(Debug)]
pub(crate) struct Unfinished {
    // Ordering: relaxed throughout. A scrape may see the begin or end of a request a moment late.
    // Padded, so that workers with neighbouring packets do not share a cache line.
    marks: Box<[CachePadded<Mark>]>,
}

#[derive(Debug, Default)]
struct Mark {
    /// Time of arrival in nanoseconds; 0 = no request.
    came_at: AtomicU64,
    id: AtomicU64,
    class: AtomicU8,
    /// See [`Wait::number`].
    wait: AtomicU32,
}

impl Unfinished {
    /// Marks for `packets` packets, all without a request.
    pub(crate) fn new(packets: usize) -> Unfinished {
        Unfinished { marks: (0..packets).map(|_| CachePadded::default()).collect() }
    }

    /// Notes that `packet` holds the request `about`.
    pub(crate) fn begin(&self, packet: usize, about: About) {
        let mark = &self.marks[packet];
        mark.id.store(about.id, Ordering::Relaxed);
        mark.class.store(about.class, Ordering::Relaxed);
        mark.wait.store(0, Ordering::Relaxed);
        mark.came_at.store(about.came_at.get().max(1), Ordering::Relaxed);
    }

    /// Notes what the request in `packet` waits for; `None` = nothing, or a free worker.
    pub(crate) fn waits(&self, packet: usize, wait: Option<Wait>) {
        self.marks[packet].wait.store(Wait::number(wait), Ordering::Relaxed);
    }

    /// Notes that `packet` no longer holds a request.
    pub(crate) fn end(&self, packet: usize) {
        self.marks[packet].came_at.store(0, Ordering::Relaxed);
    }

    /// Each unfinished request, and what it waits for; `None` = nothing, or a free worker.
    pub(crate) fn all(&self) -> impl Iterator<Item = (About, Option<Wait>)> {
        self.marks.iter().filter_map(|mark| {
            let came_at = Nanos::new(mark.came_at.load(Ordering::Relaxed));
            let about =
                About { id: mark.id.load(Ordering::Relaxed), class: mark.class.load(Ordering::Relaxed), came_at };
            (came_at > Nanos::ZERO).then(|| (about, Wait::of(mark.wait.load(Ordering::Relaxed))))
        })
    }

    /// The age of the oldest unfinished request of each class.
    pub(crate) fn oldest(&self, now: Nanos) -> [Option<Nanos>; CLASSES] {
        let mut oldest = [None; CLASSES];
        for (about, _) in self.all() {
            let of_class = &mut oldest[usize::from(about.class).min(CLASSES - 1)];
            *of_class = (*of_class).max(Some(now.minus(about.came_at)));
        }
        oldest
    }

    /// Memory for each packet, in bytes.
    pub(crate) const fn packet_bytes() -> usize {
        size_of::<CachePadded<Mark>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the wait of a request known while it lasts, and only for that request?
    #[test]
    fn waits_for_flows_and_permits_are_told_apart() {
        let (unfinished, us) = (Unfinished::new(1), Nanos::from_micros);
        let about = |id| About { id, class: 0, came_at: us(1_000) };
        let waits = || unfinished.all().map(|(about, wait)| (about.id, wait)).collect::<Vec<_>>();
        unfinished.begin(0, about(7));
        let aside = [0, 1 << 20].map(|place| Some(Wait::Aside(place)));
        for wait in [Some(Wait::Flow(0)), None, Some(Wait::Permit), aside[0], Some(Wait::Flow(65_535)), aside[1]] {
            unfinished.waits(0, wait);
            assert_eq!(waits(), [(7, wait)]);
        }
        unfinished.begin(0, about(8));
        assert_eq!(waits(), [(8, None)], "that was another request");
    }

    // Is the oldest request of each class found in any packet, and forgotten at its end?
    #[test]
    fn the_oldest_of_each_class_is_found() {
        let (unfinished, ms) = (Unfinished::new(4), Nanos::from_millis);
        let oldest = || unfinished.oldest(ms(100)).map(|age| age.map(|age| age.as_micros_f64().round() as u64 / 1_000));
        assert_eq!(oldest(), [None; CLASSES]);
        let about = |id, class, came_at| About { id, class, came_at };
        for (packet, class, at) in [(0, 1, 70), (3, 1, 20), (2, 1, 50), (1, 200, 99)] {
            unfinished.begin(packet, about(7, class, ms(at)));
        }
        assert_eq!((oldest()[0], oldest()[1], oldest()[CLASSES - 1]), (None, Some(80), Some(1)));
        unfinished.end(3);
        assert_eq!(oldest()[1], Some(50));
        unfinished.begin(0, about(8, 0, Nanos::ZERO));
        assert_eq!((oldest()[0], oldest()[1]), (Some(100), Some(50)), "since the clock began");
    }
}
