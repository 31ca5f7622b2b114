//! Two running servers (`--a`, `--b`), which get the same requests in turn.

use super::ComparedRun;
use super::campaign::PlannedRun;
use crate::arguments::CompareArguments;
use crate::endpoint::resolve;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::{self, Defaults, Plan};
use crate::progress::Progress;
use crate::report::text::offer;
use crate::run;
use crate::text::wrapped;
use forebay::inside::emulation::overheads::Overheads;
use forebay::time::Nanos;

/// The default length of a run, as for policies. There is no default load: the user gives the rate.
const DEFAULTS: Defaults = Defaults { load: None, duration: Nanos::from_secs(3), warmup: Nanos::from_secs(1) };

/// The arguments with the servers of `--a` and `--b` as arms, and the plan of a run against the
/// first server. `None` without these flags.
///
/// # Errors
/// A usage failure for flags that contradict one another.
pub(crate) fn of(arguments: &CompareArguments) -> Result<Option<(CompareArguments, Plan)>, Failure> {
    let CompareArguments { protocol, offer, .. } = arguments;
    let Some((a, b)) = arguments.a.as_ref().zip(arguments.b.as_ref()) else {
        let is_other = protocol.profile.is_some() || !protocol.payload.is_empty();
        let why = "--profile and --payload need running servers: add --a and --b, or leave them out";
        return if is_other { Err(Failure::usage(why)) } else { Ok(None) };
    };
    let profile = plan::of_protocol(protocol, offer, &[])?;
    let offer = plan::of_profile(offer, &profile);
    resolve("--b", b)?;
    let plan = Plan::of_offer(&offer, &DEFAULTS, resolve("--a", a)?, None, 1, Overheads::NONE, Nanos::ZERO)?;
    let arguments = CompareArguments { policies: vec![a.clone(), b.clone()], ..arguments.clone() };
    Ok(Some((arguments, Plan { profile, ..plan })))
}

/// The first lines of the output: both servers and the plan.
pub(super) fn heading(arguments: &CompareArguments, plan: &Plan) -> String {
    let (names, rounds) = (arguments.policies.join(" and "), arguments.rounds);
    let text = format!("Comparing {names}: {}, {rounds} runs of {} for each.", offer(plan), plan.duration);
    wrapped("", &text, "") + "\n"
}

/// Drives the server of a task as in `plan`.
pub(super) fn run(
    arguments: &CompareArguments,
    plan: &Plan,
    PlannedRun { task, number, runs, of_round, so_far }: PlannedRun<'_>,
    interrupt: &Interrupt,
) -> Result<ComparedRun, Failure> {
    let target = resolve("--a or --b", &task.policy)?;
    let plan = Plan { target, seed: task.seed, ..plan.clone() }.of_round(of_round);
    let progress = Progress::new(&task.arm, &plan, arguments.offer.quiet).of_runs(number, runs, Nanos::ZERO);
    let report = run::execute(&plan, None, interrupt, progress.below(so_far))?.report;
    Ok(ComparedRun { report, arm: task.arm.clone(), server: None, simulated: None })
}
