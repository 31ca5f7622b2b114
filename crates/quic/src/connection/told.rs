//! What a shard is told of what its connections have begun.

/// What a shard is told of what it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// A helper thread has put the connection of this place back.
    Returned(u16),
    /// The request of this key has made its result.
    Made(u64),
}
