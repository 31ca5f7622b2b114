//! The virtual-time simulator of `loadgen`, compiled into the tests of this crate.

#[path = "../loadgen/src/lab/sim/mod.rs"]
pub(crate) mod sim;
#[path = "../loadgen/src/lab/stats/mod.rs"]
pub(crate) mod stats;
#[path = "../loadgen/src/lab/workload/mod.rs"]
pub(crate) mod workload;
