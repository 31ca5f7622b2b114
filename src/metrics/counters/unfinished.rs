//! The requests that are not finished. Each packet has a mark, written when its request is admitted and when it ends. Only a
//! scrape reads it.

use crate::fate::CLASSES;
use crate::metrics::About;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// The low bits of a time hold the class, in place of 256 ns; zero is no request.
const CLASS_BITS: u64 = 0xFF;
/// The highest bit of a number says that the request is set aside.
const SET_ASIDE: u64 = 1 << 63;

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

    /// The request in this packet waits for its flow, or no longer does.
    pub(crate) fn set_aside(&self, packet: usize, set_aside: bool) {
        let mark = &self.marks[packet].id;
        let id = mark.load(Ordering::Relaxed) & !SET_ASIDE;
        mark.store(if set_aside { id | SET_ASIDE } else { id }, Ordering::Relaxed);
    }

    /// The request in this packet, if there was one, has ended.
    pub(crate) fn end(&self, packet: usize) {
        self.marks[packet].came_at.store(0, Ordering::Relaxed);
    }

    /// The requests, and whether each is set aside.
    pub(crate) fn all(&self) -> impl Iterator<Item = (About, bool)> {
        self.marks.iter().filter_map(|mark| {
            let came_at = mark.came_at.load(Ordering::Relaxed);
            let id = mark.id.load(Ordering::Relaxed);
            let about = |came_at| About {
                id: id & !SET_ASIDE,
                class: (came_at & CLASS_BITS) as u8,
                came_at: Nanos::new(came_at & !CLASS_BITS),
            };
            (came_at > 0).then(|| (about(came_at), id & SET_ASIDE != 0))
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

#[cfg(test)]
mod tests {
    use super::*;

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
