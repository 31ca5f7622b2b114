//! The laboratory: virtual time, the commands that use it, and measurements of a server's steps.
//!
//! `workload`, `stats` (confidence intervals) and `sim` (virtual time instead of threads) do not
//! depend on any command, because `forebay` compiles these three for its tests. `simulate` and
//! `plan` share the code in `study`.

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

/// The long help of `--workload` with the forms of all commands; `usual` is the default.
pub(crate) fn workload_help(usual: &str) -> String {
    format!("What requests cost: the name of a preset or a form{usual}\n\n{}", forms_help())
}
