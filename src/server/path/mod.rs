//! A datagram's way through a worker. README.md lists the files that it passes, and the types to
//! know.

pub(crate) mod common;
pub(crate) mod engine;
pub(crate) mod job;
pub(crate) mod packet;
pub(crate) mod repeats;
pub(crate) mod serving;
