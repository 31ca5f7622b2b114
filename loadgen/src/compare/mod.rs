//! `loadgen compare` sends the same requests to a fresh server for each policy, or to two running
//! servers.

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
use crate::results::Outputs;
use crate::run;
use flow_map::FlowMap;
use forebay::inside::wire::CLASS_NAMES;
use forebay::metrics::Percentile;
use forebay::time::{Nanos, clock};
use pooled::Arm;
use serde::Serialize;
use server_process::ServerProcess;
use server_settings::ServerSettings;
use std::collections::VecDeque;
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
/// A comparison of the default length ends within this time, repeated runs included.
const LASTS: Nanos = Nanos::from_secs(100);
/// A longer comparison takes at most 1 / `LONGER_PART` (a sixth) longer than planned.
const LONGER_PART: u64 = 6;

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

/// Runs the comparison and prints it: first virtual time, then the measurements. The
/// result is VALID if any figure is known.
///
/// # Errors A usage failure for flags that contradict one another, and for settings that a server
/// refuses; otherwise the failure itself.
pub(crate) fn compare(arguments: CompareArguments) -> Result<bool, Failure> {
    let began = clock::now();
    let interrupt = Interrupt::listen()?;
    if let Some((arguments, plan)) = &pair::of(&arguments)? {
        let outputs = arguments.offer.outputs()?;
        let heading = pair::heading(arguments, plan);
        outputs.show(&heading)?;
        let make = |task: &Task, place, of_round, so_far: &str| {
            pair::run((arguments, plan), task, place, of_round, &interrupt, so_far)
        };
        let campaign = Campaign { arguments, plan, interrupt: &interrupt, began, make: &make };
        return campaign.carry_out(&outputs, &heading, None);
    }
    let settings = ServerSettings::of(arguments)?;
    let plan = checked_plan(&settings)?;
    let arguments = &settings.arguments;
    let outputs = arguments.offer.outputs()?;
    let heading = text::heading(&settings, &plan, Task::all(arguments).len());
    outputs.show(&heading)?;
    if arguments.verbose {
        outputs.show(&text::settings(&settings, &plan))?;
    }
    let virtual_time = virtual_time::simulate_all(&settings);
    let make =
        |task: &Task, place, of_round, so_far: &str| run_one(&settings, task, place, of_round, &interrupt, so_far);
    let campaign = Campaign { arguments, plan: &plan, interrupt: &interrupt, began, make: &make };
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
    /// Combines the present runs into arms (the runs of one policy) and verdicts.
    fn join(&mut self, questions: &[Question<'_>]) {
        self.verdicts = verdict::verdicts(questions, &self.runs, self.virtual_time.as_ref());
        self.arms = Arm::all(&self.runs);
    }

    /// Whether there is any result: a verdict, a run that counts, or virtual time.
    fn is_known(&self) -> bool {
        self.virtual_time.is_some()
            || self.verdicts.iter().any(|verdict| verdict.is_usable)
            || self.runs.iter().any(pooled::counts)
    }
}

/// Makes one run. Arguments: the task, its number and the number of all runs, the percentile that a
/// round must know, and the results so far as text.
type Make<'a> = &'a dyn Fn(&Task, (usize, usize), Option<Percentile>, &str) -> Result<ComparedRun, Failure>;

/// A comparison under way: its plan, the function that makes a run, and its start.
struct Campaign<'a> {
    arguments: &'a CompareArguments,
    plan: &'a Plan,
    interrupt: &'a Interrupt,
    began: Nanos,
    make: Make<'a>,
}

impl Campaign<'_> {
    /// Makes all runs and shows the result.
    fn carry_out(&self, outputs: &Outputs, heading: &str, virtual_time: Option<VirtualTime>) -> Result<bool, Failure> {
        let (arguments, plan, schema) = (self.arguments, self.plan, "forebay-compare/1");
        // The percentiles are chosen before any measurement, so that results cannot influence the
        // choice.
        let percentiles = verdict::percentiles(plan, &schedule::draw(plan)?, arguments.rounds);
        let arms = arms(&arguments.policies);
        let names = Vec::from_iter(arms.iter().map(|(_, arm)| &arm[..]));
        let questions = verdict::questions(&names, plan.class_names().contains(&HEAVY), &percentiles);
        outputs.show(&virtual_time.iter().map(|all| text::predicted(all, &questions)).collect::<String>())?;
        // With several rounds, each run need not know the percentile by itself.
        let of_round = percentiles.of(HEAVY).copied().filter(|_| arguments.rounds > 1);
        let (verdicts, arms, runs, failed) = Default::default();
        let mut report = CompareReport { schema, verdicts, arms, virtual_time, runs, failed };
        self.run(of_round, &questions, &mut report);
        let mut text = text::render(&report);
        if arguments.verbose {
            text += &text::accounts(&report, plan);
        }
        outputs.finish(&text, || &report, || text::page(&report, heading))?;
        Ok(report.is_known())
    }

    /// Makes the runs of all tasks. While time is left, runs that do not count are repeated with
    /// the next seeds.
    fn run(&self, of_round: Option<Percentile>, questions: &[Question<'_>], report: &mut CompareReport) {
        let tasks = Task::all(self.arguments);
        let planned = tasks.len();
        let arms = planned / self.arguments.rounds as usize;
        let mut next_seed = tasks.last().map_or(0, |task| task.seed.wrapping_add(1));
        let mut tasks = VecDeque::from(tasks);
        let mut number = 0;
        // At most twice the planned runs: a lasting disturbance would spoil repeated runs too.
        let may_run =
            |number, longest| number < 2 * planned && self.has_time(planned, longest) && !self.interrupt.is_raised();
        let mut longest = self.plan.warmup.plus(self.plan.duration).plus(BESIDE_RUN);
        while let Some(task) = tasks.pop_front().filter(|_| may_run(number, longest)) {
            let begins = clock::now();
            let (place, so_far) = ((number, planned.max(number + 1)), text::so_far(report));
            let counts = match (self.make)(&task, place, of_round, &so_far) {
                Ok(run) => {
                    let counts = pooled::counts(&run);
                    report.runs.push(run);
                    counts
                }
                Err(failure) => {
                    let cause = failure.to_string();
                    report.failed.push(FailedRun { arm: task.arm.clone(), seed: task.seed, cause });
                    false
                }
            };
            number += 1;
            longest = longest.max(clock::now().minus(begins));
            if !counts {
                tasks.push_back(Task { seed: next_seed, ..task });
                next_seed = next_seed.wrapping_add(1);
            }
            if number.is_multiple_of(arms) {
                report.join(questions);
            }
        }
        report.join(questions);
    }

    /// Whether one more run of length `one` ends in time. The limit depends on the number of
    /// `planned` runs.
    fn has_time(&self, planned: usize, one: Nanos) -> bool {
        let all = self.plan.warmup.plus(self.plan.duration).plus(BESIDE_RUN).times(planned as u64);
        let lasts = LASTS.max(all.plus(Nanos::new(all.get() / LONGER_PART)));
        clock::now().minus(self.began).plus(one) <= lasts
    }
}

/// A run to make.
#[derive(Clone)]
struct Task {
    policy: String,
    /// The name of the run, as in [`ComparedRun`].
    arm: String,
    seed: u64,
}

impl Task {
    /// All tasks. The policies take turns, so that other programs disturb all of them alike.
    fn all(arguments: &CompareArguments) -> Vec<Task> {
        let arms = arms(&arguments.policies);
        let round = |seed| arms.iter().cloned().map(move |(policy, arm)| Task { policy, arm, seed });
        arguments.seeds().flat_map(round).collect()
    }
}

/// Each policy with the name of its runs. A policy that is named twice has the runs `steal#1` and
/// `steal#2`, which show how much two runs of one policy differ.
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
    so_far: &str,
) -> Result<ComparedRun, Failure> {
    let arguments = &settings.arguments;
    let flow_map = if arguments.simulate { Some(FlowMap::survey(settings)?) } else { None };
    let listen = flow_map.as_ref().map_or(ANY_PORT, |flow_map| flow_map.address);
    let process = ServerProcess::start(&settings.serve_arguments(&task.policy, listen), arguments.verbose)?;
    let endpoint = Endpoint::new(&process.admin)?;
    let plan = settings.plan(process.udp)?;
    let plan = Plan { seed: task.seed, ..plan }.of_round(of_round);
    let progress =
        Progress::new(&task.arm, &plan, arguments.offer.quiet).of_runs(number, tasks, BESIDE_RUN).below(so_far);
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
