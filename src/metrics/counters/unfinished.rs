//! When the requests came that are not finished. Each packet has one number, written when its request is admitted and when
//! it ends. Only a scrape reads it.

use crate::fate::CLASSES;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering};

/// The low bits of a number hold the class, in place of 256 ns; zero is no request.
const CLASS_BITS: u64 = 0xFF;

/// The requests of one server.
#[derive(Debug)]
pub(crate) struct Unfinished {
    // Ordering: relaxed throughout; a scrape may see a request a moment late, at its beginning and at its end. Padded:
    // workers that have neighbouring packets do not wait for each other's line.
    marks: Box<[CachePadded<AtomicU64>]>,
}

impl Unfinished {
    /// No request in any of so many packets.
    pub(crate) fn new(packets: usize) -> Unfinished {
        Unfinished { marks: (0..packets).map(|_| CachePadded::default()).collect() }
    }

    /// A request of `class`, in this packet, is to be served; it came at `arrived_at`.
    pub(crate) fn begin(&self, packet: usize, class: u8, arrived_at: Nanos) {
        self.marks[packet]
            .store(arrived_at.get().max(CLASS_BITS + 1) & !CLASS_BITS | u64::from(class), Ordering::Relaxed);
    }

    /// The request in this packet, if there was one, has ended.
    pub(crate) fn end(&self, packet: usize) {
        self.marks[packet].store(0, Ordering::Relaxed);
    }

    /// The age of the oldest request of each class.
    pub(crate) fn oldest(&self, now: Nanos) -> [Option<Nanos>; CLASSES] {
        let mut oldest = [None; CLASSES];
        for mark in self.marks.iter().map(|mark| mark.load(Ordering::Relaxed)).filter(|mark| *mark > 0) {
            let class = (mark & CLASS_BITS) as usize;
            let of_class = &mut oldest[class.min(CLASSES - 1)];
            *of_class = (*of_class).max(Some(now.minus(Nanos::new(mark & !CLASS_BITS))));
        }
        oldest
    }

    /// Bytes for each packet.
    pub(crate) const fn packet_bytes() -> usize {
        size_of::<CachePadded<AtomicU64>>()
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
        for (packet, class, at) in [(0, 1, 70), (3, 1, 20), (2, 1, 50), (1, 200, 99)] {
            unfinished.begin(packet, class, ms(at));
        }
        assert_eq!((oldest()[0], oldest()[1], oldest()[CLASSES - 1]), (None, Some(80), Some(1)));
        unfinished.end(3);
        assert_eq!(oldest()[1], Some(50));
        unfinished.begin(0, 0, Nanos::ZERO);
        assert_eq!((oldest()[0], oldest()[1]), (Some(100), Some(50)), "since the clock began");
    }
}
