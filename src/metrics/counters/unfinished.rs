//! The requests that are not finished. Each packet has a mark, written when its request is admitted and when it ends. Only a
//! scrape reads it.

use crate::fate::CLASSES;
use crate::metrics::About;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// The low bits of a time hold the class, in place of 256 ns; zero is no request.
const CLASS_BITS: u64 = 0xFF;
/// The highest bits of a number say what the request waits for, apart from a worker.
const FLOW: u64 = 1 << 63;
const PERMIT: u64 = 1 << 62;

/// What a request waits for, apart from a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// An earlier request of its flow.
    Flow,
    /// A permit to work uninterrupted.
    Permit,
}

/// The requests of one server.
#[derive(Debug)]
pub(crate) struct Unfinished {
    // Ordering: relaxed throughout; a scrape may see a request a moment late, at its beginning and at its end. Padded:
    // workers that have neighbouring packets do not wait for each other's line.
    marks: Box<[CachePadded<Mark>]>,
}

#[derive(Debug, Default)]
struct Mark {
    came_at: AtomicU64,
    id: AtomicU64,
    /// The request that has waited for a permit, and for how long.
    permit: [AtomicU64; 2],
}

impl Unfinished {
    /// No request in any of so many packets.
    pub(crate) fn new(packets: usize) -> Unfinished {
        Unfinished { marks: (0..packets).map(|_| CachePadded::default()).collect() }
    }

    /// This request, in this packet, is to be served.
    pub(crate) fn begin(&self, packet: usize, about: About) {
        let (class, mark) = (u64::from(about.class), &self.marks[packet]);
        mark.id.store(about.id, Ordering::Relaxed);
        mark.came_at.store(about.came_at.get().max(CLASS_BITS + 1) & !CLASS_BITS | class, Ordering::Relaxed);
    }

    /// The request in this packet waits for this, apart from a worker, or no longer does.
    pub(crate) fn waits(&self, packet: usize, wait: Option<Wait>) {
        let bit = wait.map_or(0, |wait| if wait == Wait::Flow { FLOW } else { PERMIT });
        let mark = &self.marks[packet].id;
        mark.store(number(mark.load(Ordering::Relaxed)) | bit, Ordering::Relaxed);
    }

    /// The request in this packet has a permit, and `waited` for it.
    pub(crate) fn permitted(&self, packet: usize, waited: Nanos) {
        self.waits(packet, None);
        let before = self.permit_wait(packet);
        let [of, wait] = &self.marks[packet].permit;
        of.store(self.marks[packet].id.load(Ordering::Relaxed), Ordering::Relaxed);
        wait.store(before.plus(waited).get(), Ordering::Relaxed);
    }

    /// How long the request in this packet has waited for permits.
    pub(crate) fn permit_wait(&self, packet: usize) -> Nanos {
        let Mark { id, permit: [of, wait], .. } = &*self.marks[packet];
        let known = of.load(Ordering::Relaxed) == number(id.load(Ordering::Relaxed));
        Nanos::new(if known { wait.load(Ordering::Relaxed) } else { 0 })
    }

    /// The request in this packet, if there was one, has ended.
    pub(crate) fn end(&self, packet: usize) {
        self.marks[packet].came_at.store(0, Ordering::Relaxed);
    }

    /// The requests, and what each waits for, apart from a worker.
    pub(crate) fn all(&self) -> impl Iterator<Item = (About, Option<Wait>)> {
        self.marks.iter().filter_map(|mark| {
            let came_at = mark.came_at.load(Ordering::Relaxed);
            let id = mark.id.load(Ordering::Relaxed);
            let about = |came_at| About {
                id: number(id),
                class: (came_at & CLASS_BITS) as u8,
                came_at: Nanos::new(came_at & !CLASS_BITS),
            };
            let wait = if id & FLOW != 0 { Some(Wait::Flow) } else { (id & PERMIT != 0).then_some(Wait::Permit) };
            (came_at > 0).then(|| (about(came_at), wait))
        })
    }

    /// The age of the oldest request of each class.
    pub(crate) fn oldest(&self, now: Nanos) -> [Option<Nanos>; CLASSES] {
        let mut oldest = [None; CLASSES];
        for (about, _) in self.all() {
            let of_class = &mut oldest[usize::from(about.class).min(CLASSES - 1)];
            *of_class = (*of_class).max(Some(now.minus(about.came_at)));
        }
        oldest
    }

    /// Bytes for each packet.
    pub(crate) const fn packet_bytes() -> usize {
        size_of::<CachePadded<Mark>>()
    }
}

/// The number without the bits beside it.
fn number(id: u64) -> u64 {
    id & !(FLOW | PERMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is what a request waits for known while it waits, and its wait for permits afterwards, for this request alone?
    #[test]
    fn waits_for_flows_and_permits_are_told_apart() {
        let (unfinished, us) = (Unfinished::new(1), Nanos::from_micros);
        let about = |id| About { id, class: 0, came_at: us(1_000) };
        let waits = || unfinished.all().map(|(about, wait)| (about.id, wait)).collect::<Vec<_>>();
        unfinished.begin(0, about(7));
        for wait in [Some(Wait::Flow), None, Some(Wait::Permit)] {
            unfinished.waits(0, wait);
            assert_eq!(waits(), [(7, wait)]);
        }
        unfinished.permitted(0, us(30));
        unfinished.waits(0, Some(Wait::Permit));
        unfinished.permitted(0, us(12));
        assert_eq!((waits(), unfinished.permit_wait(0)), (vec![(7, None)], us(42)));
        unfinished.begin(0, about(8));
        assert_eq!(unfinished.permit_wait(0), Nanos::ZERO, "that was another request");
    }

    // Is the oldest of each class found, whatever its packet, and forgotten when it ends?
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
