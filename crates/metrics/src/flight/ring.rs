//! A lock-free ring of records with one writer and any number of readers. New records replace the
//! oldest.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// One record of the ring.
pub(super) type Words = [u64; 4];

/// The latest records of one writer.
#[derive(Debug)]
pub(super) struct RecordRing {
    /// Number of records that the writer has begun to write.
    begun: AtomicU64,
    /// Number of complete records.
    done: AtomicU64,
    slots: Box<[[AtomicU64; 4]]>,
}

impl RecordRing {
    /// An empty ring for `slots` records, which must be a power of two.
    pub(super) fn new(slots: usize) -> RecordRing {
        assert!(slots.is_power_of_two(), "places are found by a mask");
        let slots = (0..slots).map(|_| Default::default()).collect();
        RecordRing { begun: AtomicU64::new(0), done: AtomicU64::new(0), slots }
    }

    /// Adds a record. Only the writer may call this.
    #[inline]
    pub(super) fn push(&self, record: Words) {
        // Ordering: relaxed, because only this thread writes `begun`.
        let number = self.begun.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // Ordering: release, pairs with the fence in `latest`. A reader that sees a word of this
        // record also sees `begun`, and omits the record that was here before.
        fence(Ordering::Release);
        for (word, value) in self.slot(number).iter().zip(record) {
            // Ordering: relaxed. `begun` and `done` order the words.
            word.store(value, Ordering::Relaxed);
        }
        // Ordering: release, pairs with the acquire in `latest`: a counted record is complete.
        self.done.store(number + 1, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &[AtomicU64; 4] {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    /// Up to `most` of the newest records that the ring still holds, oldest first. Also the number
    /// of records ever written.
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
        let ring = RecordRing::new(4);
        assert_eq!(ring.latest(9), (vec![], 0));
        let record = |number| [number, 10 * number, 20 * number, 30 * number];
        (1..=5).for_each(|number| ring.push(record(number)));
        assert_eq!(ring.latest(9), ([2, 3, 4, 5].map(record).to_vec(), 5));
        assert_eq!(ring.latest(1), (vec![record(5)], 5));
        assert_eq!(ring.latest(0), (vec![], 5));
    }

    /// Does a reader never see a record that is partly replaced? Method: all words of a record are
    /// equal. One thread writes without pause, and another reads 2,000 times.
    #[test]
    fn no_record_is_seen_in_parts() {
        let (ring, stop) = (RecordRing::new(8), AtomicBool::new(false));
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
