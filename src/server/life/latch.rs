//! Threads that run, and wait for the word to begin: whatever can fail in making them has not failed then.

use std::sync::{Condvar, Mutex, PoisonError};

/// The word, which is given once.
#[derive(Debug, Default)]
pub(super) struct Latch {
    /// Whether the threads begin; `None` while that is open.
    word: Mutex<Option<bool>>,
    given: Condvar,
}

impl Latch {
    /// Waits for the word; true if the thread may begin.
    pub(super) fn wait(&self) -> bool {
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *word {
                Some(begins) => return begins,
                None => word = self.given.wait(word).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Lets all threads begin.
    pub(super) fn open(&self) {
        self.give(true);
    }

    /// A guard that sends all threads home when it is dropped before [`Latch::open`].
    pub(super) fn guard(&self) -> Guard<'_> {
        Guard(self)
    }

    fn give(&self, begins: bool) {
        self.word.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(begins);
        self.given.notify_all();
    }
}

/// See [`Latch::guard`].
pub(super) struct Guard<'a>(&'a Latch);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.give(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    // Does the first word count, for threads that wait and for those that come later?
    #[test]
    fn the_first_word_counts() {
        for opens in [true, false] {
            let latch = Latch::default();
            thread::scope(|scope| {
                let waits = scope.spawn(|| latch.wait());
                let guard = latch.guard();
                if opens {
                    latch.open();
                }
                drop(guard);
                assert_eq!((waits.join().expect("no panic"), latch.wait()), (opens, opens));
            });
        }
    }
}
