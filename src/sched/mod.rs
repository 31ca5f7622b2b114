//! Policies: pure decisions, no action.
//!
//! A [`Policy`] is a value. It says which worker belongs to which pool, where requests wait, where
//! a free worker looks, and when a running request gives way. [`turn`] is a worker that follows it.
//! The worker tries one place after another ([`Policy::search`]), puts jobs where they go
//! ([`Policy::place`]) and asks whether a running job stays ([`Policy::at_checkpoint`]). Nothing
//! here reads a clock or touches a thread, an atomic or a socket. A policy knows the world by its
//! [`View`], which may be stale.

mod adapt;
pub mod auto;
pub mod bounds;
pub mod estimate;
pub mod grouping;
mod interface;
pub mod ladder;
mod noticed;
mod notices;
pub mod overload;
pub mod policy;
mod roster;
pub mod sharing;
mod tuning;
pub mod turn;
mod wait;

pub use adapt::Adaptation;
pub use auto::gittins;
pub use interface::{Event, Outcome, Place, PoolId, Resume, Running, Step, Topology, Verdict, View, Watch, WorkerId};
pub use noticed::Noticed;
pub use notices::Notices;
pub use policy::{
    Entry, Local, Made, Patience, Policy, PolicyName, QUEUES, SearchPlace, UNINTERRUPTED, UnknownPolicy, Walk,
    look_interval, name_here,
};
pub use roster::Roster;
pub use tuning::{MaxWait, Measured, Objective, Tuning};
pub use wait::{Spinning, WAKE_LATENCY, Wait};

#[cfg(test)]
mod tests;
