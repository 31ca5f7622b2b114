//! What every layer of Forebay names: how datagrams end ([`fate`]), and times ([`time`]). Nothing
//! here reads a clock, knows a thread or touches a socket.
//!
//! Programs use these types as `forebay::fate` and `forebay::time`.

pub mod fate;
pub mod time;
