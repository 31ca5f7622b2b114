//! A server's life: start, service, reload, hand-over, stop. [`run`] is its table of contents.

mod drain;
pub(super) mod handover;
pub(super) mod panics;
pub(super) mod reload;
pub(super) mod run;
mod serving;
pub(super) mod stop;
pub(super) mod supervisor;
mod threads;
