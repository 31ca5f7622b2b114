//! The policies: which worker serves which request next. Pure: no clock, thread, atomic or socket.

mod name;

pub use name::{PolicyName, UnknownPolicy};
