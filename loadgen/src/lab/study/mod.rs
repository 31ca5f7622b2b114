//! The common part of `loadgen simulate` and `loadgen plan`. It runs many simulations in virtual
//! time, searches among them, and prints results as a table and as JSON.

pub(crate) mod goal;
pub(crate) mod json;
mod judge;
pub(crate) mod parallel;
pub(crate) mod policy_spec;
pub(crate) mod question;
pub(crate) mod replayed;
pub(crate) mod scenario;
pub(crate) mod search;
pub(crate) mod simulation;
pub(crate) mod table;
