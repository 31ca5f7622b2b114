//! The part of the server that a datagram passes through.

#[path = "../../src/server/path/mod.rs"]
pub(crate) mod path;
