//! The studies behind `loadgen simulate` and `loadgen plan`: many simulations in virtual time,
//! compared.

pub(crate) mod advice;
pub(crate) mod capacity;
pub(crate) mod goal;
pub(crate) mod judge;
pub(crate) mod parallel;
pub(crate) mod policy_spec;
pub(crate) mod question;
pub(crate) mod replayed;
pub(crate) mod scenario;
pub(crate) mod search;
