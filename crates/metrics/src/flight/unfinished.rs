//! The unfinished requests. Each packet has a mark. It is written when the packet's request is
//! admitted, when the cause of its wait changes, and when it ends. Only scrapes read marks.

use super::About;
use crate::fate::CLASSES;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a request waits for, if it does not simply wait for a free worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// The end of an earlier request of its flow, in the shard of this number.
    Flow(u32),
    /// A permit to work uninterrupted, that is, for long without a checkpoint.
    Permit,
    /// The end of its work aside, in this place of the ledger of helpers.
    Aside(u32),
}

/// An unfinished request.
#[derive(Clone, Copy, Debug)]
pub struct Open {
    /// The request.
    pub about: About,
    /// Its shard; `None` = it has none.
    pub shard: Option<u32>,
    /// What it waits for; `None` = nothing, or a free worker.
    pub wait: Option<Wait>,
}

/// Of the number of a wait, the bits that say which. The bits above them have the request's shard,
/// counted from 1; 0 = none.
const WHICH: u64 = u32::MAX as u64;

impl Wait {
    /// As a number without a shard; 0 = none.
    fn number(wait: Option<Wait>) -> u64 {
        match wait {
            None => 0,
            Some(Wait::Permit) => 1,
            Some(Wait::Flow(_)) => 2,
            Some(Wait::Aside(place)) => 3 + u64::from(place),
        }
    }

    /// The shard of a request, and what it waits for, from a number with a shard.
    fn of(number: u64) -> (Option<u32>, Option<Wait>) {
        // The casts are safe, because each part has 32 bits.
        let shard = ((number >> 32) as u32).checked_sub(1);
        let wait = match number & WHICH {
            0 => None,
            1 => Some(Wait::Permit),
            2 => Some(Wait::Flow(shard.unwrap_or_default())),
            place => Some(Wait::Aside((place - 3) as u32)),
        };
        (shard, wait)
    }
}

/// The unfinished requests of one server.
#[derive(Debug)]
pub struct UnfinishedRequests {
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
    /// See [`WHICH`]. Both are in one number, so that a scrape sees no wait with another request's
    /// shard.
    wait: AtomicU64,
}

impl UnfinishedRequests {
    /// Marks for `packets` packets, all without a request.
    pub fn new(packets: usize) -> UnfinishedRequests {
        UnfinishedRequests { marks: (0..packets).map(|_| CachePadded::default()).collect() }
    }

    /// Notes that `packet` holds the request `about`.
    #[inline]
    pub fn begin(&self, packet: usize, about: About) {
        let mark = &self.marks[packet];
        mark.id.store(about.id, Ordering::Relaxed);
        mark.class.store(about.class, Ordering::Relaxed);
        mark.wait.store(0, Ordering::Relaxed);
        mark.came_at.store(about.came_at.get().max(1), Ordering::Relaxed);
    }

    /// Notes what the request in `packet` waits for; `None` = nothing, or a free worker. From a
    /// [`Wait::Flow`] on, it is in that shard.
    pub fn waits(&self, packet: usize, wait: Option<Wait>) {
        let mark = &self.marks[packet].wait;
        // Only the worker that has the packet writes the mark.
        let shard = match wait {
            Some(Wait::Flow(shard)) => (u64::from(shard) + 1) << 32,
            _ => mark.load(Ordering::Relaxed) & !WHICH,
        };
        mark.store(shard | Wait::number(wait), Ordering::Relaxed);
    }

    /// Notes that `packet` no longer holds a request.
    #[inline]
    pub fn end(&self, packet: usize) {
        self.marks[packet].came_at.store(0, Ordering::Relaxed);
    }

    /// Each unfinished request.
    pub fn all(&self) -> impl Iterator<Item = Open> {
        self.marks.iter().filter_map(|mark| {
            let came_at = Nanos::new(mark.came_at.load(Ordering::Relaxed));
            let about =
                About { id: mark.id.load(Ordering::Relaxed), class: mark.class.load(Ordering::Relaxed), came_at };
            let (shard, wait) = Wait::of(mark.wait.load(Ordering::Relaxed));
            (came_at > Nanos::ZERO).then_some(Open { about, shard, wait })
        })
    }

    /// The shards that are held up by a request that waits for its work aside. The shards of the
    /// oldest requests come first.
    pub fn shards_aside(&self) -> Vec<u32> {
        let held_up = |Open { about, shard, wait }: Open| match wait {
            Some(Wait::Aside(_)) => Some((about.came_at, shard?)),
            _ => None,
        };
        let mut shards: Vec<_> = self.all().filter_map(held_up).collect();
        shards.sort_unstable();
        shards.into_iter().map(|(_, shard)| shard).collect()
    }

    /// The age of the oldest unfinished request of each class.
    pub fn oldest(&self, now: Nanos) -> [Option<Nanos>; CLASSES] {
        let mut oldest = [None; CLASSES];
        for Open { about, .. } in self.all() {
            let of_class = &mut oldest[usize::from(about.class).min(CLASSES - 1)];
            *of_class = (*of_class).max(Some(now.minus(about.came_at)));
        }
        oldest
    }

    /// Memory for each packet, in bytes.
    pub const fn packet_bytes() -> usize {
        size_of::<CachePadded<Mark>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the wait of a request known while it lasts, and only for that request? Is it in its shard
    // until its end?
    #[test]
    fn waits_for_flows_and_permits_are_told_apart() {
        let (unfinished, us) = (UnfinishedRequests::new(1), Nanos::from_micros);
        let about = |id| About { id, class: 0, came_at: us(1_000) };
        let waits = || unfinished.all().map(|Open { about, shard, wait }| (about.id, shard, wait)).collect::<Vec<_>>();
        unfinished.begin(0, about(7));
        let aside = [0, u32::MAX - 3].map(|place| Some(Wait::Aside(place)));
        let flows = [0, 65_535].map(|shard| Some(Wait::Flow(shard)));
        for (wait, shard) in [
            (aside[1], None),
            (Some(Wait::Permit), None),
            (flows[0], Some(0)),
            (None, Some(0)),
            (Some(Wait::Permit), Some(0)),
            (aside[0], Some(0)),
            (flows[1], Some(65_535)),
            (aside[1], Some(65_535)),
        ] {
            unfinished.waits(0, wait);
            assert_eq!(waits(), [(7, shard, wait)]);
        }
        unfinished.begin(0, about(8));
        assert_eq!(waits(), [(8, None, None)], "that was another request");
    }

    // Are the shards known that work aside holds up, the oldest first, and no others?
    #[test]
    fn shards_that_work_aside_holds_up_are_known() {
        let unfinished = UnfinishedRequests::new(5);
        let (flow, aside) = (|shard| Some(Wait::Flow(shard)), Some(Wait::Aside(9)));
        let waits = [(40, &[flow(7), aside][..]), (10, &[flow(3)]), (20, &[aside]), (30, &[flow(2), aside])];
        for (packet, (at, waits)) in waits.into_iter().enumerate() {
            unfinished.begin(packet, About { id: 1, class: 0, came_at: Nanos::from_millis(at) });
            waits.iter().for_each(|wait| unfinished.waits(packet, *wait));
        }
        assert_eq!(unfinished.shards_aside(), [2, 7]);
        unfinished.end(3);
        assert_eq!(unfinished.shards_aside(), [7]);
    }

    // Is the oldest request of each class found in any packet, and forgotten at its end?
    #[test]
    fn the_oldest_of_each_class_is_found() {
        let (unfinished, ms) = (UnfinishedRequests::new(4), Nanos::from_millis);
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
