//! What is due for one shard.

use crate::runtime::continuation::discard;
use crate::time::Nanos;
use std::any::Any;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// One thing that is delivered to a shard besides datagrams.
#[derive(Debug)]
pub(crate) enum Due {
    /// The server starts.
    Starting,
    /// The time of this key has come.
    Timer(u64, Nanos),
    /// The shard was woken.
    Woken,
    /// A message to the shard.
    Message(Box<dyn Any + Send>),
    /// The server stops.
    Stopping,
}

/// The timers and messages of one shard.
#[derive(Default)]
pub(super) struct ShardEvents {
    pub(super) times: HashMap<u64, Nanos>,
    /// The same pairs, in the order of the times.
    pub(super) order: BTreeSet<(Nanos, u64)>,
    pub(super) messages: VecDeque<Box<dyn Any + Send>>,
    /// Whether the shard was woken, and has not heard of it.
    pub(super) woken: bool,
    /// Whether the shard is still to be told that the server starts, or stops.
    pub(super) starting: bool,
    pub(super) stopping: bool,
    /// Whether an event of this shard is in progress.
    pub(super) fires: bool,
    pub(super) is_listed: bool,
}

/// Messages that no shard has had are dropped one by one, as [`discard`] does.
impl Drop for ShardEvents {
    fn drop(&mut self) {
        self.messages.drain(..).for_each(discard);
    }
}
