//! A ring of records: one writer, any number of readers, no lock. The newest records replace the
//! oldest.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// A record of a ring.
pub(super) type Words = [u64; 4];

/// The latest records of one writer.
#[derive(Debug)]
pub(super) struct Ring {
    /// The number of records that the writer has begun to write.
    begun: AtomicU64,
    /// The number of records that are complete.
    done: AtomicU64,
    slots: Box<[[AtomicU64; 4]]>,
}

impl Ring {
    /// An empty ring for so many records, a power of two.
    pub(super) fn new(slots: usize) -> Ring {
        assert!(slots.is_power_of_two(), "places are found by a mask");
        let slots = (0..slots).map(|_| Default::default()).collect();
        Ring { begun: AtomicU64::new(0), done: AtomicU64::new(0), slots }
    }

    /// Adds a record. For the writer alone.
    #[inline]
    pub(super) fn push(&self, record: Words) {
        // Ordering: relaxed, only the writer writes it.
        let number = self.begun.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // Ordering: release, pairs with the fence in `latest`. A reader that sees a word of this
        // record sees `begun` too. It leaves out the record that was here.
        fence(Ordering::Release);
        for (word, value) in self.slot(number).iter().zip(record) {
            // Ordering: relaxed, `begun` and `done` order them.
            word.store(value, Ordering::Relaxed);
        }
        // Ordering: release, pairs with the acquire in `latest`: a record that counts is complete.
        self.done.store(number + 1, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &[AtomicU64; 4] {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    /// The newest records that the ring still holds, at most so many, oldest first, and the number
    /// of all that were written.
    #[cfg(any(feature = "admin", test))]
    pub(super) fn latest(&self, most: u64) -> (Vec<Words>, u64) {
        // Ordering: acquire, pairs with the release in `push`.
        let done = self.done.load(Ordering::Acquire);
        let room = self.slots.len() as u64;
        let first = done.saturating_sub(room.min(most));
        let read = |number: u64| self.slot(number).each_ref().map(|word| word.load(Ordering::Relaxed));
        let mut records: Vec<_> = (first..done).map(read).collect();
        // Ordering: acquire, pairs with the fence in `push`.
        fence(Ordering::Acquire);
        let replaced = self.begun.load(Ordering::Relaxed).saturating_sub(room);
        records.drain(..(replaced.saturating_sub(first) as usize).min(records.len()));
        (records, done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn the_newest_records_stay() {
        let ring = Ring::new(4);
        assert_eq!(ring.latest(9), (vec![], 0));
        let record = |number| [number, 10 * number, 20 * number, 30 * number];
        (1..=5).for_each(|number| ring.push(record(number)));
        assert_eq!(ring.latest(9), ([2, 3, 4, 5].map(record).to_vec(), 5));
        assert_eq!(ring.latest(1), (vec![record(5)], 5));
        assert_eq!(ring.latest(0), (vec![], 5));
    }

    /// Does a reader never see a record of which another one has replaced a part?
    /// Method: the words of a record are equal. One thread writes as fast as it can, another reads
    /// 2,000 times.
    #[test]
    fn no_record_is_seen_in_parts() {
        let (ring, stop) = (Ring::new(8), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    ring.push([number; 4]);
                    number += 1;
                }
            });
            let mut seen = 0;
            for _ in 0..2_000 {
                let (records, next) = ring.latest(8);
                assert!(next >= seen);
                seen = next;
                for record in records {
                    assert!(record.iter().all(|word| *word == record[0]), "{record:?}");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
