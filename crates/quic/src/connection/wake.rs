//! Wakes: which connections of a shard have tasks that may go on.
//!
//! A waker of a connection sets its bit, and wakes the shard if the bit was not set. The event of
//! the shard clears the bit before it polls the tasks, so no wake is lost. A wake on the thread
//! that polls them only sets the bit. [`Link::drive`] says afterwards whether it is set; then its
//! caller goes on.

use super::told::Told;
use crate::ids::Named;
use crate::places::CONNECTIONS_MAX;
use forebay::handler::{Teller, outside};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Wake;

/// The bits of one word.
const WORD: usize = u64::BITS as usize;

/// The connections of one shard that were woken, by their places.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    // Ordering: acquire and release. Who clears a bit sees what was done before it was set.
    places: [AtomicU64; CONNECTIONS_MAX / WORD],
    /// How many keys were made.
    // Ordering: relaxed, a count.
    keys: AtomicU64,
}

impl Woken {
    /// Sets the bit of `place`. Returns whether it was not set.
    fn set(&self, place: u16) -> bool {
        let (word, bit) = bit_of(place);
        self.places[word].fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn clear(&self, place: u16) {
        let (word, bit) = bit_of(place);
        self.places[word].fetch_and(!bit, Ordering::AcqRel);
    }

    fn is_set(&self, place: u16) -> bool {
        let (word, bit) = bit_of(place);
        self.places[word].load(Ordering::Acquire) & bit != 0
    }

    /// The first place from `from` on that was woken. Its bit is cleared.
    pub(crate) fn next(&self, from: u16) -> Option<u16> {
        let place = (from..CONNECTIONS_MAX as u16).find(|place| self.is_set(*place))?;
        self.clear(place);
        Some(place)
    }
}

/// The word of a place, and its bit there.
fn bit_of(place: u16) -> (usize, u64) {
    (usize::from(place) / WORD, 1 << (usize::from(place) % WORD))
}

thread_local! {
    /// The connection whose tasks this thread polls: where its shard's bits are, and its place.
    static DRIVEN: Cell<Option<(usize, u16)>> = const { Cell::new(None) };
}

/// By what the tasks of one connection reach its shard.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) woken: Arc<Woken>,
    pub(crate) teller: Teller<Told>,
    pub(crate) shard: u16,
    pub(crate) place: u16,
}

impl Link {
    /// Lets the event of the connection's shard poll its tasks again, and send what they have
    /// written.
    pub(crate) fn wake_connection(&self) {
        if self.woken.set(self.place) && !self.is_driven_here() {
            self.teller.wake(self.shard.into());
        }
    }

    /// The same, also if the connection was woken in the event that now ends.
    pub(crate) fn wake_shard(&self) {
        self.woken.set(self.place);
        self.teller.wake(self.shard.into());
    }

    /// Whether this thread polls the tasks of this connection.
    pub(crate) fn is_driven_here(&self) -> bool {
        DRIVEN.get() == Some(self.name())
    }

    /// What the IDs of the connection name.
    pub(crate) fn named(&self) -> Named {
        Named { shard: self.shard, place: self.place }
    }

    fn name(&self) -> (usize, u16) {
        (Arc::as_ptr(&self.woken).addr(), self.place)
    }

    /// Calls `act`, whose wakes of this connection wake no shard: this event goes on to
    /// [`Link::drive`].
    pub(crate) fn here<T>(&self, act: impl FnOnce() -> T) -> T {
        /// Also after a panic of a task.
        struct Driven(Option<(usize, u16)>);
        impl Drop for Driven {
            fn drop(&mut self) {
                DRIVEN.set(self.0);
            }
        }
        let _driven = Driven(DRIVEN.replace(Some(self.name())));
        act()
    }

    /// Clears the bit, and calls `poll`, which polls the tasks. Returns whether the bit is set
    /// again.
    pub(crate) fn drive(&self, poll: impl FnOnce()) -> bool {
        self.woken.clear(self.place);
        self.here(|| outside(poll));
        self.woken.is_set(self.place)
    }

    /// A key of what the connection begins. It is made once in the shard, and contains the place.
    /// So a connection never gets what an earlier one at its place has begun.
    pub(crate) fn next_key(&self) -> u64 {
        (self.woken.keys.fetch_add(1, Ordering::Relaxed) + 1) << u16::BITS | u64::from(self.place)
    }
}

/// The place of the connection that began what has this key. `None` for work of no connection.
pub(crate) fn place_of(key: u64) -> Option<u16> {
    (key > 0).then_some(key as u16)
}

impl Wake for Link {
    fn wake(self: Arc<Self>) {
        self.wake_connection();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.wake_connection();
    }
}
