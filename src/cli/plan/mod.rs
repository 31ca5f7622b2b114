//! `forebay plan`: the smallest number of workers, the policy and its sizes that hold a goal, found in virtual time.

mod arguments;
mod json;
mod measured;
mod text;

pub(super) use arguments::PlanArguments;

use super::results::{Failure, open, printed, write};
use super::simulate::fleet;
use super::simulate::progress::Bar;
use crate::lab::sim::Fleet;
use crate::lab::study::advice::{Advice, Findings, Report};
use crate::lab::study::goal::Goal;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::study::progress::Progress as _;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::{Scenario, most_requests};
use crate::lab::study::search::Search;
use crate::lab::study::workers::{Look, Question};
use crate::lab::study::{advice, parallel};
use crate::lab::workload::Workload;
use crate::sched::Sizes;
use crate::time::Nanos;

/// Plans what `arguments` ask for, writes the file that they name and returns the part of the report for standard
/// output.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(super) fn plan(arguments: &PlanArguments) -> Result<String, Failure> {
    let demand = demand(arguments)?;
    let question = question(arguments, &demand)?;
    let json = open("--json", &arguments.json)?;
    let progress = Bar::of_search(arguments.quiet);
    let (goal, goal_source) = match arguments.slo {
        Some(goal) => (goal, None),
        None => default_goal(&question, arguments.policy[0], &progress),
    };
    let question = Question { goal, ..question };
    let search = question.search(&arguments.policy, &progress);
    let findings = match search.chosen {
        Some(chosen) => {
            let look = search.answers[chosen].look.clone();
            Findings::Holds(Box::new(advice(&question, look, &search, demand.replayed.as_ref(), &progress)))
        }
        None => Findings::Impossible(parallel::map(&arguments.policy, |spec| question.held(*spec, &progress))),
    };
    progress.finish();
    let report = Report { question, source: demand.source.clone(), goal_source, search, findings };
    write(&json, || json::render(&report))?;
    Ok(printed(text::render(&report), &[json.as_ref()]))
}

/// Checks `arguments`, without simulating.
///
/// # Errors
/// The message of [`plan`].
#[cfg(test)]
pub(super) fn check(arguments: &PlanArguments) -> Result<(), String> {
    question(arguments, &demand(arguments)?).map(drop)
}

/// What is planned for.
struct Demand {
    workload: Workload,
    /// Requests per second.
    rate: f64,
    /// The source of both.
    source: String,
    /// The trace, where that is it.
    replayed: Option<Replayed>,
}

fn demand(arguments: &PlanArguments) -> Result<Demand, String> {
    let beside = arguments.overheads.per_request();
    let (workload, measured, source, replayed) = if let Some(url) = &arguments.from {
        let asked = measured::ask(url)?;
        let source = format!(
            "{url} ({}, {} workers, {:.0} s, {:.1} % answered)",
            asked.policy,
            asked.workers,
            asked.seconds,
            100.0 * asked.answered
        );
        (asked.workload, Some(asked.rate), source, None)
    } else if let Some(path) = &arguments.replay {
        let replayed = Replayed::read(path)?;
        let source = format!("{} ({})", path.display(), replayed.workload.name());
        (replayed.workload.clone(), Some(replayed.rate()), source, Some(replayed))
    } else {
        let workload = arguments.workload.clone().expect("clap requires one of the three");
        let source = workload.name().to_owned();
        (workload, None, source, None)
    };
    let workload = workload.with_time_beside(beside);
    let workers = arguments.workers.map(|workers| usize::from(workers) * arguments.servers.map_or(1, usize::from));
    let at_load = arguments.load.zip(workers).map(|(load, workers)| workload.rate_at(load, workers, 1));
    let rate = arguments.rate.or(at_load).or(measured);
    let rate = rate.ok_or("say how much is offered: --rate N (requests/s), or --load SHARE with --workers N")?;
    Ok(Demand { workload, rate, source, replayed })
}

fn question<'a>(arguments: &PlanArguments, demand: &'a Demand) -> Result<Question<'a>, String> {
    let (policies, workload, rate) = (&arguments.policy, &demand.workload, demand.rate);
    if let Some(bound) = policies.iter().find(|spec| matches!(spec, PolicySpec::Reference(_))) {
        return Err(format!("--policy {bound}: it exists in simulation only, no server can follow it"));
    }
    let most = arguments.workers.unwrap_or(arguments.workers_max);
    let fleet = |servers| fleet(servers, most.into(), arguments.lost, arguments.balance);
    let fleet = arguments.servers.map(fleet).transpose()?;
    // At each server that is left.
    let busy = workload.load_at(rate * (1.0 + arguments.headroom), fleet.map_or(1, Fleet::left), 1);
    let pools = policies.iter().any(|spec| spec.sizes() == Sizes::Pools);
    // As many workers as are busy fall behind.
    let least = (busy.floor() as usize + 1).max(if pools { 2 } else { 1 });
    let workers = match arguments.workers {
        Some(1) if pools => return Err("--policy pools needs two workers at least: leave pools out".to_owned()),
        Some(workers) => usize::from(workers)..=usize::from(workers),
        None if least > usize::from(arguments.workers_max) => {
            return Err(format!(
                "the requests keep {busy:.1} workers {}busy with the headroom, and --workers-max is {}: raise it, or lower \
                 the rate",
                if fleet.is_some() { "of each server that is left " } else { "" },
                arguments.workers_max
            ));
        }
        None => least..=usize::from(arguments.workers_max),
    };
    let scenario = Scenario::new(workload, *workers.start(), arguments.overheads, arguments.seed, arguments.requests);
    let scenario = Scenario { fleet, checkpoint_step: arguments.checkpoint, ..scenario };
    // Of long requests no more than one simulation may take, and of the longest not even that.
    let requests = most_requests(workload.mean(), arguments.checkpoint).max(REQUESTS_MIN).min(arguments.requests);
    let scenario = Scenario { slice: Some(scenario.budget()), requests, ..scenario };
    let goal = arguments.slo.unwrap_or(Goal::of_slowdown(SLOWDOWN));
    let question = Question { scenario, rate, headroom: arguments.headroom, goal, workers };
    // The more workers, the lower the load, and the longer a simulation lasts that looks for the highest one.
    let load = question.load_at(rate, *question.workers.end());
    policies.iter().try_for_each(|spec| question.scenario.check(*spec, load))?;
    Ok(question)
}

/// The fewest requests that say anything.
const REQUESTS_MIN: u64 = 1_000;

/// The p99.9 of slowdown that a plan is for where no goal is given, and how many times that of an idle server where even
/// that is slower.
const SLOWDOWN: f64 = 10.0;
const OF_IDLE: f64 = 2.0;

/// The goal where none was given, and where it comes from.
fn default_goal(question: &Question<'_>, spec: PolicySpec, progress: &Bar) -> (Goal, Option<String>) {
    let usual = Goal::of_slowdown(SLOWDOWN);
    let idle = usual.figure(&question.alone(spec, progress).tally);
    if idle * OF_IDLE <= SLOWDOWN || !idle.is_finite() {
        return (usual, Some("the usual one: --slo sets another".to_owned()));
    }
    // Two digits, rounded up.
    let unit = 10.0_f64.powf((idle * OF_IDLE).log10().floor() - 1.0);
    let goal = Goal::of_slowdown((idle * OF_IDLE / unit).ceil() * unit);
    (
        goal,
        Some(format!("twice the {} of an idle server, since that is above 5; --slo sets another", usual.shown(idle))),
    )
}

/// The advice that follows from `look`: settings, reasons, and what changes would do.
fn advice<'a>(
    question: &Question<'a>,
    look: Look,
    search: &Search,
    replayed: Option<&'a Replayed>,
    progress: &Bar,
) -> Advice {
    progress.stage("the choice is made; ".to_owned());
    progress.looks_at(format!("what {} does when things change", look.settings.spec));
    let (what_ifs, no_more_long) = question.what_ifs(&look, long_from(question), replayed);
    let changes = parallel::map(&what_ifs, |what_if| question.look_at(what_if, progress));
    Advice {
        settings: advice::settings(&look.settings),
        reasons: advice::reasons(question, &look, search),
        look,
        changes,
        no_more_long,
    }
}

/// The cost from which a request is long; `None` if no gap divides the costs.
fn long_from(question: &Question<'_>) -> Option<Nanos> {
    question.scenario.decision().budget()
}
