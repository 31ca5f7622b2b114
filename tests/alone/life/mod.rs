//! Restart, reload, idle CPU time and memory of a server.

mod handover;
mod idle;
mod memory;
mod reload;
