//! Policies: they decide about requests and workers, as pure functions without side effects.
//!
//! A [`Policy`] is plain data. It says which worker is in which pool, where requests wait, where a
//! free worker looks, and when a running request yields. [`turn`] is the state machine of a worker
//! that follows the policy. It asks the policy where to search next ([`Policy::search`]), where a
//! job waits ([`Policy::place`]), and whether a running job runs on ([`Policy::at_checkpoint`]).
//! Nothing here reads a clock or touches a thread, an atomic or a socket. A policy sees the other
//! workers and the queues through a [`View`], which may be stale.

use forebay_base::{fate, time};

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
mod recent;
mod roster;
pub mod sharing;
mod tuning;
pub mod turn;
mod wait;

pub use adapt::Adaptation;
pub use auto::gittins;
pub use interface::{
    Event, Outcome, Place, PoolId, Resume, RunningJob, Step, Topology, Verdict, View, Watch, WorkerId,
};
pub use noticed::Noticed;
pub use notices::Notices;
pub use policy::{
    Entry, Local, Made, Patience, Policy, PolicyName, QUEUES, SearchPlace, UNINTERRUPTED, UnknownPolicy, Walk,
    longest_after, look_interval, name_here,
};
pub use recent::Recent;
pub use roster::Roster;
pub use tuning::{MaxWait, Measured, Objective, Tuning};
pub use wait::{Spinning, WAKE_LATENCY, Wait};

#[cfg(test)]
mod tests;
