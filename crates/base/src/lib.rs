//! What every layer of Forebay names: how datagrams end ([`fate`]), times ([`time`]) and sources
//! ([`source`]). Also what each step of a server costs ([`overheads`]), and recorded requests
//! ([`trace`]). Nothing here reads a clock, knows a thread or touches a socket.
//!
//! Programs use these types as `forebay::fate` and `forebay::time`.

pub mod fate;
pub mod overheads;
pub mod source;
pub mod time;
pub mod trace;
