//! A server's life: start, service, reload, hand-over and stop. [`run`] does all of these.

mod control;
mod drain;
mod helpers;
#[cfg(feature = "admin")]
mod pages;
mod panics;
pub(super) mod report;
pub(super) mod run;
mod serving;
pub(super) mod start;
pub(super) mod stop;
pub(super) mod supervisor;
mod threads;
