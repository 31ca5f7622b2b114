//! The state of each shard, while no request has it.

use crate::runtime::continuation::{discard, lock};
use std::sync::Mutex;

/// The states of the shards of a service, but for those that requests have now.
pub(crate) struct States<S>(Box<[ShardPlace<S>]>);

type ShardPlace<S> = Mutex<Option<Box<S>>>;

impl<S> States<S> {
    /// One shard for each of these states.
    pub(crate) fn new(states: impl Iterator<Item = S>) -> States<S> {
        States(states.map(|state| Mutex::new(Some(Box::new(state)))).collect())
    }

    /// Takes the state of `shard`; `None` while another request has it.
    pub(crate) fn take(&self, shard: Option<u32>) -> Option<Box<S>> {
        lock(&self.0[shard? as usize]).take()
    }

    /// Gives `state` back to `shard`, if there is one: before another request of that begins. The
    /// state of a request without a shard ends with it.
    #[inline]
    pub(crate) fn give_back(&self, shard: Option<u32>, state: Option<Box<S>>) {
        match shard {
            Some(shard) if state.is_some() => *lock(&self.0[shard as usize]) = state,
            _ => discard(state),
        }
    }
}

/// Each state is dropped by itself, as [`discard`] does: a panic on the way keeps no other one.
impl<S> Drop for States<S> {
    fn drop(&mut self) {
        self.0.iter().for_each(|place| discard(lock(place).take()));
    }
}
