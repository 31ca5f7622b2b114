//! The laboratory: virtual time, the commands that use it, and measurements of a server's steps.
//!
//! The model of a server, workloads and confidence intervals are the crate `forebay-sim`.
//! `simulate` and `plan` share the code in `study`.

mod calibrate;
pub(crate) mod plan;
pub(crate) mod simulate;
pub(crate) mod study;

pub use forebay_sim as sim;
pub use forebay_sim::{stats, workload};

pub(crate) use calibrate::{CalibrateArguments, calibrate};
pub(crate) use plan::{PlanArguments, plan};
pub(crate) use simulate::{SimulateArguments, simulate};

use workload::forms_help;

/// The long help of `--workload` with the forms of all commands; `usual` is the default.
pub(crate) fn workload_help(usual: &str) -> String {
    format!("What requests cost: the name of a preset or a form{usual}\n\n{}", forms_help())
}
