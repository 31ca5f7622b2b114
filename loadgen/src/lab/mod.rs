//! The laboratory: virtual time, what is asked of it, and what the parts of a server cost.
//!
//! `workload`, `stats` (which figures hold) and `sim` (virtual time instead of threads) know no
//! command; `forebay` compiles them for its tests. `study` is what `simulate` and `plan` ask.

mod calibrate;
pub(crate) mod plan;
pub mod sim;
pub(crate) mod simulate;
pub mod stats;
pub(crate) mod study;
pub mod workload;

pub(crate) use calibrate::{CalibrateArguments, calibrate};
pub(crate) use plan::{PlanArguments, plan};
pub(crate) use simulate::{SimulateArguments, simulate};

use workload::forms_help;

/// The long help of `--workload`, whose forms are those of all commands; `usual` is the default.
pub(crate) fn workload_help(usual: &str) -> String {
    format!("What requests cost: the name of a preset or a form{usual}\n\n{}", forms_help())
}
