//! `loadgen compare` sends the same requests to a fresh server for each policy, or to two running
//! servers.

mod campaign;
mod flow_map;
pub(crate) mod pair;
mod pooled;
pub mod server_process;
pub(crate) mod server_settings;
mod sizing;
mod text;
mod validation;
mod verdict;
mod virtual_time;

use crate::arguments::CompareArguments;
use crate::drive::{flows, schedule};
use crate::endpoint::{Endpoint, ServerView};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::json::RunReport;
use crate::run;
use campaign::{Campaign, PlannedRun};
use flow_map::FlowMap;
use forebay::inside::wire::CLASS_NAMES;
use forebay::time::Nanos;
use pooled::Arm;
use serde::Serialize;
use server_process::ServerProcess;
use server_settings::ServerSettings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use validation::Simulated;
use verdict::{Question, Verdict};
use virtual_time::VirtualTime;

/// Any free port on loopback.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The class of cheap requests, and the class of expensive ones.
const LIGHT: &str = CLASS_NAMES[0];
const HEAVY: &str = CLASS_NAMES[1];
/// Time that a run takes beside its requests: the server starts, drains and ends.
const BESIDE_RUN: Nanos = Nanos::from_millis(300);

/// The result of a comparison, as written to JSON (`forebay-compare/1`).
#[derive(Debug, Serialize)]
pub(crate) struct CompareReport {
    schema: &'static str,
    /// Comparisons of the last policy with others.
    pub(crate) verdicts: Vec<Verdict>,
    /// The valid runs of each policy, taken together.
    pub(crate) arms: Vec<Arm>,
    /// The same policies in virtual time; `None` if the load is not steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) virtual_time: Option<VirtualTime>,
    /// For each round, one run for each policy in the order of the flags. Repeated runs come last.
    pub(crate) runs: Vec<ComparedRun>,
    /// Runs without a result.
    pub(crate) failed: Vec<FailedRun>,
    /// Planned runs that were not made.
    pub(crate) not_made: usize,
    /// Why not.
    #[serde(skip)]
    pub(crate) ended: &'static str,
}

/// A run that gave no result.
#[derive(Debug, Serialize)]
pub(crate) struct FailedRun {
    arm: String,
    seed: u64,
    /// What went wrong.
    pub(crate) cause: String,
}

/// One policy's run, as client and server saw it.
#[derive(Debug, Serialize)]
pub(crate) struct ComparedRun {
    /// What the client measured.
    #[serde(flatten)]
    pub(crate) report: RunReport,
    /// The name of the run: its policy, numbered if the policy was named more than once.
    pub(crate) arm: String,
    /// What the server measured: the body of its `/latency` after its last request. `None` if it
    /// never answered.
    pub(crate) server: Option<ServerView>,
    /// The simulation of the same requests, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<Simulated>,
}

/// Runs the comparison and prints it: first virtual time, then the measurements. Says whether a
/// verdict is known.
///
/// # Errors
/// A usage failure for flags that contradict one another, and for settings that a server
/// refuses; otherwise the failure itself.
pub(crate) fn compare(arguments: CompareArguments) -> Result<bool, Failure> {
    let interrupt = Interrupt::listen()?;
    if let Some((arguments, plan)) = &pair::of(&arguments)? {
        let outputs = arguments.offer.outputs()?;
        let heading = pair::heading(arguments, plan);
        outputs.show(&heading)?;
        let make = |run: PlannedRun<'_>| pair::run(arguments, plan, run, &interrupt);
        let campaign = Campaign { arguments, plan, interrupt: &interrupt, make: &make };
        return campaign.carry_out(&outputs, &heading, None);
    }
    let settings = ServerSettings::of(arguments)?;
    let plan = checked_plan(&settings)?;
    let arguments = &settings.arguments;
    let outputs = arguments.offer.outputs()?;
    let heading = text::heading(&settings, &plan, campaign::tasks(arguments).len());
    outputs.show(&heading)?;
    if arguments.verbose {
        outputs.show(&text::settings(&settings, &plan))?;
    }
    let virtual_time = virtual_time::simulate_all(&settings);
    let make = |run: PlannedRun<'_>| run_one(&settings, run, &interrupt);
    let campaign = Campaign { arguments, plan: &plan, interrupt: &interrupt, make: &make };
    campaign.carry_out(&outputs, &heading, virtual_time)
}

/// The plan of each run. It reports every error of the flags before the first server starts.
fn checked_plan(settings: &ServerSettings) -> Result<Plan, Failure> {
    let plan = settings.plan(ANY_PORT)?;
    schedule::check(&plan)?;
    for policy in &settings.arguments.policies {
        server_process::check(&settings.serve_arguments(policy, ANY_PORT))?;
    }
    Ok(plan)
}

impl CompareReport {
    /// Combines the present runs into arms (the runs of one policy) and verdicts, of so many
    /// `planned` rounds.
    fn join(&mut self, questions: &[Question<'_>], planned: usize) {
        self.verdicts = verdict::verdicts(questions, &self.runs, planned, self.virtual_time.as_ref());
        self.arms = Arm::all(&self.runs);
    }

    /// Whether a verdict is known. Without any question, whether a run counts.
    fn is_known(&self) -> bool {
        match &self.verdicts[..] {
            [] => self.runs.iter().any(pooled::counts),
            verdicts => verdicts.iter().any(|verdict| verdict.is_usable),
        }
    }
}

fn run_one(
    settings: &ServerSettings,
    PlannedRun { task, number, runs, of_round, so_far }: PlannedRun<'_>,
    interrupt: &Interrupt,
) -> Result<ComparedRun, Failure> {
    let arguments = &settings.arguments;
    let flow_map = if arguments.simulate { Some(FlowMap::survey(settings)?) } else { None };
    let listen = flow_map.as_ref().map_or(ANY_PORT, |flow_map| flow_map.address);
    let process = ServerProcess::start(&settings.serve_arguments(&task.policy, listen), arguments.verbose)?;
    let endpoint = Endpoint::new(&process.admin)?;
    let plan = settings.plan(process.udp)?;
    let plan = Plan { seed: task.seed, ..plan }.of_round(of_round);
    let progress =
        Progress::new(&task.arm, &plan, arguments.offer.quiet).of_runs(number, runs, BESIDE_RUN).below(so_far);
    let opened = if flow_map.is_none() { flows::open(plan.target, plan.flows, None)? } else { Vec::new() };
    let sockets = flow_map.as_ref().map_or(&opened, |flow_map| &flow_map.flows);
    let mut outcome = run::execute_on(&plan, sockets, Some(&endpoint), interrupt, progress)?;
    let server = outcome.server;
    if let Err(error) = process.stop() {
        outcome.report.invalidate(format!("{error:#}"));
    }
    let again = |flow_map: &FlowMap| {
        validation::simulated(settings, &task.policy, &plan, &flow_map.socket_of, &outcome.exchange, server.as_ref()?)
    };
    let simulated = flow_map.as_ref().and_then(again);
    for reason in simulated.iter().flat_map(|again| again.objections(&outcome.report)).collect::<Vec<_>>() {
        outcome.report.invalidate(reason);
    }
    Ok(ComparedRun { report: outcome.report, arm: task.arm.clone(), server, simulated })
}
