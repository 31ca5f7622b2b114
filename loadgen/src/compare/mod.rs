//! `loadgen compare`: a fresh server for each policy, the same requests for each server.

mod flow_map;
mod nearness;
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
use crate::report::validity::Validity;
use crate::run;
use anyhow::{Context, Result};
use flow_map::FlowMap;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use forebay::wire::CLASS_NAMES;
use pooled::Arm;
use serde::Serialize;
use server_process::ServerProcess;
use server_settings::ServerSettings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use validation::Simulated;
use verdict::Verdict;
use virtual_time::VirtualTime;

/// Any free port on loopback.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The class of cheap requests, and that of dear ones.
const LIGHT: &str = CLASS_NAMES[0];
const HEAVY: &str = CLASS_NAMES[1];
/// Time that a run takes beside its requests: a server starts, drains and ends.
const BESIDE_RUN: Nanos = Nanos::from_millis(300);

/// The result of a comparison, as written to JSON (`forebay-compare/1`).
#[derive(Debug, Serialize)]
pub(crate) struct CompareReport {
    schema: &'static str,
    /// What the last policy shows against others.
    pub(crate) verdicts: Vec<Verdict>,
    /// The VALID runs of each policy together.
    pub(crate) arms: Vec<Arm>,
    /// The same policies in virtual time, where the load is steady.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) virtual_time: Option<VirtualTime>,
    /// One run for each policy, in the order of the flags, for each round in turn.
    pub(crate) runs: Vec<ComparedRun>,
}

/// One policy's run, from both sides.
#[derive(Debug, Serialize)]
pub(crate) struct ComparedRun {
    /// The client's side.
    #[serde(flatten)]
    pub(crate) report: RunReport,
    /// The name of the run: its policy, numbered if the policy was named more than once.
    pub(crate) arm: String,
    /// The server's side: the body of its `/latency` after its last request.
    pub(crate) server: ServerView,
    /// The simulation of the same requests, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<Simulated>,
}

/// Runs the comparison, prints it, and returns the worst verdict.
///
/// # Errors
/// A usage failure for contradicting flags and for settings that a server refuses; otherwise what went wrong.
pub(crate) fn compare(arguments: CompareArguments) -> Result<Validity, Failure> {
    let interrupt = Interrupt::listen()?;
    let mut settings = ServerSettings::of(arguments)?;
    let plan = checked_plan(&mut settings)?;
    let arguments = &settings.arguments;
    let outputs = arguments.offer.outputs()?;
    let tasks = Task::all(arguments);
    let heading = text::heading(&settings, &plan, tasks.len());
    outputs.show(&heading)?;
    if arguments.verbose {
        outputs.show(&text::settings(&settings, &plan))?;
    }
    let report = CompareReport::of(&settings, &plan, &tasks, &interrupt)?;
    let mut text = text::render(&report);
    if settings.arguments.verbose {
        text += &text::accounts(&report, &plan);
    }
    text += &nearness::render(&report.runs);
    outputs.finish(&text, || &report, || text::page(&report, &heading))?;
    Ok(report.validity())
}

/// The plan of each run. Every error of the flags is reported before the first server runs for its half minute.
fn checked_plan(settings: &mut ServerSettings) -> Result<Plan, Failure> {
    let plan = settings.plan(ANY_PORT)?;
    schedule::check(&plan)?;
    if settings.arguments.simulate {
        validation::prepare(settings, &plan)?;
    }
    for policy in &settings.arguments.policies {
        server_process::check(&settings.serve_arguments(policy, ANY_PORT))?;
    }
    Ok(plan)
}

impl CompareReport {
    /// Makes the runs, and compares them.
    fn of(
        settings: &ServerSettings,
        plan: &Plan,
        tasks: &[Task],
        interrupt: &Interrupt,
    ) -> Result<CompareReport, Failure> {
        let arguments = &settings.arguments;
        // Before anything is compared, so that what is shown does not choose it.
        let percentiles = verdict::percentiles(plan, &schedule::draw(plan)?, arguments.rounds);
        // One policy's only run must know its percentile by itself.
        let of_round = percentiles.of(HEAVY).copied().filter(|_| arguments.rounds > 1);
        let mut runs = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            runs.push(run_one(settings, task, (number, tasks.len()), of_round, interrupt)?);
            if interrupt.is_raised() {
                break;
            }
        }
        let virtual_time = if interrupt.is_raised() { None } else { virtual_time::simulate_all(settings) };
        Ok(CompareReport {
            schema: "forebay-compare/1",
            verdicts: verdict::verdicts(&runs, &percentiles),
            arms: Arm::all(&runs),
            virtual_time,
            runs,
        })
    }

    /// VALID where every verdict can be used; without one, where every run is VALID.
    fn validity(&self) -> Validity {
        let usable = match &self.verdicts[..] {
            [] => self.runs.iter().all(pooled::is_valid),
            verdicts => verdicts.iter().all(|verdict| verdict.is_usable),
        };
        if usable { Validity::Valid } else { Validity::Invalid }
    }
}

/// A run to be made.
struct Task {
    policy: String,
    /// The name of the run, as in [`ComparedRun`].
    arm: String,
    seed: u64,
}

impl Task {
    /// All tasks. The policies take turns, so that other activity of the machine affects them all.
    fn all(arguments: &CompareArguments) -> Vec<Task> {
        let arms = arms(&arguments.policies);
        let round = |seed| arms.iter().cloned().map(move |(policy, arm)| Task { policy, arm, seed });
        arguments.seeds().flat_map(round).collect()
    }
}

/// Each policy with the name of its runs: `steal`, or `steal#1` and `steal#2`, which show how much two runs of one
/// policy differ.
fn arms(policies: &[String]) -> Vec<(String, String)> {
    let count = |policy: &String, among: &[String]| among.iter().filter(|other| *other == policy).count();
    let arm = |(place, policy): (usize, &String)| match count(policy, policies) {
        1 => policy.clone(),
        _ => format!("{policy}#{}", count(policy, &policies[..=place])),
    };
    policies.iter().cloned().zip(policies.iter().enumerate().map(arm)).collect()
}

fn run_one(
    settings: &ServerSettings,
    task: &Task,
    (number, tasks): (usize, usize),
    of_round: Option<Percentile>,
    interrupt: &Interrupt,
) -> Result<ComparedRun, Failure> {
    let arguments = &settings.arguments;
    let flow_map = if arguments.simulate { Some(FlowMap::survey(settings)?) } else { None };
    let listen = flow_map.as_ref().map_or(ANY_PORT, |flow_map| flow_map.address);
    let process = ServerProcess::start(&settings.serve_arguments(&task.policy, listen), arguments.verbose)?;
    let endpoint = Endpoint::new(&process.admin)?;
    let plan = settings.plan(process.udp)?;
    let percentile = plan.percentile.or(of_round);
    // Who asks for a percentile asks every run for it.
    let plan = Plan { seed: task.seed, percentile, is_round: plan.percentile.is_none() && of_round.is_some(), ..plan };
    let progress = Progress::new(&task.arm, &plan, arguments.offer.quiet).of_runs(number, tasks, BESIDE_RUN);
    let opened = if flow_map.is_none() { flows::open(plan.target, plan.flows, None)? } else { Vec::new() };
    let sockets = flow_map.as_ref().map_or(&opened, |flow_map| &flow_map.flows);
    let mut outcome = run::execute_on(&plan, sockets, Some(&endpoint), interrupt, progress)?;
    let server = outcome.server.context("the server's admin endpoint did not answer once")?;
    if let Err(error) = process.stop() {
        outcome.report.invalidate(format!("{error:#}"));
    }
    let again = |flow_map: &FlowMap| {
        validation::simulated(settings, &task.policy, &plan, &flow_map.socket_of, &outcome.exchange, &server)
    };
    let simulated = flow_map.as_ref().and_then(again);
    for reason in simulated.iter().flat_map(|again| again.objections(&outcome.report)).collect::<Vec<_>>() {
        outcome.report.invalidate(reason);
    }
    Ok(ComparedRun { report: outcome.report, arm: task.arm.clone(), server, simulated })
}
