//! What the shards of a server hand over to its successor.

use super::{Events, lock};
use std::any::Any;

/// The most bytes that the shards of a server hand over, with 8 for each part.
const BYTES_MAX: usize = 1 << 26;

/// What the shards hand over.
#[derive(Default)]
pub(super) struct Parts {
    /// For each part the number of its shard and its length, four bytes each, and then the part.
    bytes: Vec<u8>,
    /// How many bytes more there may be; 0 without a successor.
    room: usize,
}

impl Events {
    /// Lets shards hand over state from now on.
    pub(crate) fn permit_hand_over(&self) {
        lock(&self.handed_over).room = BYTES_MAX;
    }

    /// Keeps `state` for the shard of this number in the successor. Gives it back if there is no
    /// successor or no room.
    pub(crate) fn hand_over(&self, shard: u32, state: Vec<u8>) -> Result<(), Vec<u8>> {
        let mut parts = lock(&self.handed_over);
        let Some(room) = parts.room.checked_sub(8 + state.len()) else { return Err(state) };
        parts.room = room;
        let length = state.len() as u32;
        parts.bytes.extend([shard.to_le_bytes(), length.to_le_bytes()].as_flattened());
        parts.bytes.extend(state);
        Ok(())
    }

    /// All that was kept. Nothing more is kept afterwards.
    pub(crate) fn take_handed_over(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.handed_over)).bytes
    }

    /// Gives each shard its part of a predecessor's state, as the message that `wrap` makes.
    /// Returns how many bytes are lost: those of shards that are full or not there.
    pub(crate) fn inherit<M: Any + Send>(&self, mut parts: &[u8], wrap: impl Fn(Vec<u8>) -> M) -> usize {
        let mut lost = 0;
        while let Some((head, rest)) = parts.split_first_chunk::<8>() {
            let head = u64::from_le_bytes(*head);
            let (shard, length) = (head as u32 as usize, (head >> 32) as usize);
            let Some((part, next)) = rest.split_at_checked(length) else { break };
            if shard >= self.shards.len() || self.tell(shard, wrap(part.to_vec())).is_err() {
                lost += length;
            }
            parts = next;
        }
        lost + parts.len()
    }
}
