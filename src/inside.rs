//! Internals for the load generator, benches and tests of this repository. They may change in any
//! release.

pub use crate::emulation;
pub use forebay_base::trace;
pub use forebay_runtime as runtime;
pub use forebay_sched as sched;
pub use forebay_udp as net;

#[cfg(feature = "cli")]
pub use crate::cli::{command, get, run};
#[cfg(feature = "cli")]
pub use crate::handler::builtin::wire;
pub use crate::server::emulated::run_emulated;
pub use crate::server::sizes::Memory;
