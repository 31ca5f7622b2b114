//! A ring of records: one writer, any number of readers, no lock. The newest records replace the oldest.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The latest records of one writer, each of so many numbers.
#[derive(Debug)]
pub(super) struct Ring<const WORDS: usize> {
    /// The number of records that the writer has begun to write.
    begun: AtomicU64,
    /// The number of records that are complete.
    done: AtomicU64,
    slots: Box<[[AtomicU64; WORDS]]>,
}

impl<const WORDS: usize> Ring<WORDS> {
    /// An empty ring for so many records, a power of two.
    pub(super) fn new(slots: usize) -> Ring<WORDS> {
        assert!(slots.is_power_of_two(), "places are found by a mask");
        let empty = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Ring { begun: AtomicU64::new(0), done: AtomicU64::new(0), slots: (0..slots).map(empty).collect() }
    }

    /// Adds a record. For the writer alone.
    #[inline]
    pub(super) fn push(&self, record: [u64; WORDS]) {
        // Ordering: relaxed, only the writer writes it.
        let number = self.begun.load(Ordering::Relaxed);
        self.begun.store(number + 1, Ordering::Relaxed);
        // Ordering: release, pairs with the fence in `since`. A reader that sees a word of this record sees `begun` too. It
        // leaves out the record that was here.
        fence(Ordering::Release);
        for (word, value) in self.slot(number).iter().zip(record) {
            // Ordering: relaxed, `begun` and `done` order them.
            word.store(value, Ordering::Relaxed);
        }
        // Ordering: release, pairs with the acquire in `since`: a record that counts is complete.
        self.done.store(number + 1, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &[AtomicU64; WORDS] {
        &self.slots[number as usize & (self.slots.len() - 1)]
    }

    /// The number of records that were written.
    #[cfg(any(feature = "admin", test))]
    pub(super) fn written(&self) -> u64 {
        // Ordering: acquire, pairs with the release in `push`.
        self.done.load(Ordering::Acquire)
    }

    /// The records from number `from` on that the ring still holds, oldest first, and the number of the next one.
    #[cfg(any(feature = "admin", test))]
    pub(super) fn since(&self, from: u64) -> (Vec<[u64; WORDS]>, u64) {
        let done = self.written();
        let room = self.slots.len() as u64;
        let first = from.max(done.saturating_sub(room));
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
        let ring = Ring::<2>::new(4);
        assert_eq!(ring.since(0), (vec![], 0));
        (1..=5).for_each(|number| ring.push([number, 10 * number]));
        assert_eq!(ring.since(0), (vec![[2, 20], [3, 30], [4, 40], [5, 50]], 5));
        assert_eq!(ring.since(4), (vec![[5, 50]], 5));
        assert_eq!(ring.since(5), (vec![], 5));
    }

    /// Does a reader never see a record of which another one has replaced a part?
    /// Method: the words of a record are equal. One thread writes as fast as it can, another reads 2,000 times.
    #[test]
    fn no_record_is_seen_in_parts() {
        let (ring, stop) = (Ring::<4>::new(8), AtomicBool::new(false));
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
                let (records, next) = ring.since(0);
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
