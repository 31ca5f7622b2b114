//! `loadgen plan` finds the policy and the fewest workers that hold a goal, in virtual time.

mod arguments;
mod text;

pub(crate) use arguments::PlanArguments;

use crate::failure::Failure;
use crate::lab::study::goal::Goal;
use crate::lab::study::json;
use crate::lab::study::policy_spec::PolicySpec;
use crate::lab::study::question::PlanQuestion;
use crate::lab::study::replayed::Replayed;
use crate::lab::study::scenario::{Scenario, most_requests};
use crate::lab::study::search::Search;
use crate::lab::study::simulation::Simulation;
use crate::lab::workload::Workload;
use crate::results::{Outputs, bar};
use serde_json::{Value, json};
use std::ops::RangeInclusive;

/// A plan: the question, and the answer of the search.
struct Report<'a> {
    question: PlanQuestion<'a>,
    /// The source of workload and rate, in words for the report.
    source: &'a str,
    /// Why the default goal is this one; `None` if `--slo` gives the goal.
    goal_source: Option<String>,
    search: Search,
    /// The recommended settings after each change of the demand: its name and its result.
    changes: Vec<(String, Simulation)>,
}

/// Plans what `arguments` ask for, and writes the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(crate) fn plan(arguments: &PlanArguments) -> Result<(), Failure> {
    let demand = demand(arguments)?;
    let (mut question, goal_source) = question(arguments, &demand)?;
    let outputs = Outputs::open(arguments.json.as_deref(), None)?;
    let progress = bar(None, arguments.quiet);
    question.scenario.progress = progress.clone();
    let search = question.search(&arguments.policy);
    let chosen = search.chosen.map(|chosen| &search.answers[chosen]);
    let changes = chosen.map_or_else(Vec::new, |chosen| question.changes(chosen, demand.replayed.as_ref()));
    progress.finish_and_clear();
    let report = Report { question, source: &demand.source, goal_source, search, changes };
    outputs.finish(&text::render(&report), || report.document(), String::new)
}

impl Report<'_> {
    /// The recommended simulation; `None` if no policy holds the goal.
    fn chosen(&self) -> Option<&Simulation> {
        self.search.chosen.map(|chosen| &self.search.answers[chosen])
    }

    /// The settings of a server like the simulated one: as JSON, and as the text of a TOML file.
    fn settings(&self, chosen: &Simulation) -> (Value, String) {
        let entry = chosen.spec.entry().expect("a plan is for policies of a server");
        let mut settings = json!({"policy": entry.name});
        match chosen.sizes.as_deref() {
            Some([front, rest]) if entry.has_pools() => {
                settings["pools"] = format!("front={front},heavy={rest}").into();
            }
            _ => settings["workers"] = chosen.workers.into(),
        }
        if entry.settings.contains(&"slice") {
            settings["slice"] = self.question.scenario.fit(1.0).tuning.budget.to_string().into();
        }
        let lines = settings.as_object().into_iter().flatten().map(|(key, value)| format!("{key} = {value}\n"));
        let config = lines.collect();
        (settings, config)
    }

    /// The report as JSON, schema `forebay-plan/1`. If no policy holds the goal, `recommendation`
    /// is `null`.
    fn document(&self) -> Value {
        let Report { question, search, .. } = self;
        let PlanQuestion { scenario, goal, rate, headroom, .. } = question;
        let item = |simulation: &Simulation| json::item(scenario, Some(goal), simulation);
        let recommendation = |chosen: &Simulation| {
            let mut found = item(chosen);
            let (settings, config) = self.settings(chosen);
            (found["settings"], found["config"]) = (settings, config.into());
            found["holds_up_to"] = json!({"load": chosen.load, "rate": question.planned_rate()});
            found
        };
        let change = |(what, simulation): &(String, Simulation)| {
            let mut item = item(simulation);
            item["change"] = what.as_str().into();
            item
        };
        let results = search.answers.iter().map(item);
        let mut document = json::document("forebay-plan/1", scenario, Some(goal), results);
        document["demand"] = json!({
            "source": self.source,
            "workload": scenario.workload.name(),
            "rate": rate,
            "mean_us": scenario.workload.mean().as_micros_f64(),
            "busy_workers": scenario.workload.load_at(*rate, 1, 1),
        });
        document["headroom"] = (*headroom).into();
        document["planned_rate"] = question.planned_rate().into();
        document["recommendation"] = self.chosen().map(recommendation).into();
        document["one_worker_less"] = search.less.as_ref().map(item).into();
        document["sensitivity"] = self.changes.iter().map(change).collect();
        document
    }
}

/// Checks `arguments`, without simulating.
///
/// # Errors
/// The message of [`plan`].
#[cfg(test)]
pub(crate) fn check(arguments: &PlanArguments) -> Result<(), String> {
    question(arguments, &demand(arguments)?).map(drop)
}

/// The demand: how much CPU time requests cost, and how many arrive per second.
struct Demand {
    workload: Workload,
    /// Requests per second.
    rate: f64,
    /// The source of both, in words.
    source: String,
    /// The trace, if the demand comes from one.
    replayed: Option<Replayed>,
}

fn demand(arguments: &PlanArguments) -> Result<Demand, String> {
    let (workload, measured, source, replayed) = if let Some(path) = &arguments.replay {
        let replayed = Replayed::read(path)?;
        let source = format!("{} ({})", path.display(), replayed.workload.name());
        // The capture left out some requests. They arrived too, so they raise the rate; their costs
        // are taken to be distributed as the costs of the others.
        let all = 1.0 + replayed.offered.left_out as f64 / replayed.offered.requests.len() as f64;
        (replayed.workload.clone(), replayed.has_rate().then(|| replayed.rate() * all), source, Some(replayed))
    } else {
        let workload = arguments.workload.clone().expect("clap requires one of the two");
        let source = workload.name().to_owned();
        (workload, None, source, None)
    };
    let workload = workload.with_time_beside(arguments.overheads.per_request());
    let at_load = arguments.load.zip(arguments.workers);
    let at_load = at_load.map(|(load, workers)| workload.rate_at(load, workers.into(), 1));
    let rate = arguments.rate.or(at_load).or(measured);
    let rate = rate.ok_or_else(|| {
        let why = if replayed.is_some() { "--replay: all requests come at one instant, so " } else { "" };
        format!("{why}say how much is offered: --rate N (requests/s), or --load SHARE with --workers N")
    })?;
    Ok(Demand { workload, rate, source, replayed })
}

/// The question of the plan. Beside it, why the default goal is this one, if `--slo` gives none.
///
/// # Errors
/// A goal that arithmetic rules out: too few workers for the work, or a limit that no number of
/// workers holds.
fn question<'a>(arguments: &PlanArguments, demand: &'a Demand) -> Result<(PlanQuestion<'a>, Option<String>), String> {
    let (policies, workload, rate) = (&arguments.policy, &demand.workload, demand.rate);
    if let Some(bound) = policies.iter().find(|spec| matches!(spec, PolicySpec::Reference(_))) {
        return Err(format!("--policy {bound}: it exists in simulation only, no server can follow it"));
    }
    let workers = workers(arguments, workload.load_at(rate * (1.0 + arguments.headroom), 1, 1))?;
    let scenario = Scenario::new(workload, *workers.start(), arguments.overheads, arguments.seed, arguments.requests);
    // Long requests take long to simulate, so fewer of them may be simulated. With the longest ones
    // even `REQUESTS_MIN` is too many, and the check below refuses the plan.
    let requests = most_requests(workload.mean(), scenario.checkpoint_step).max(REQUESTS_MIN).min(arguments.requests);
    let shape = arguments.arrivals.clone();
    let scenario = Scenario { shape, slice: Some(scenario.fit(1.0).budget()), requests, ..scenario };
    let goal = arguments.slo.unwrap_or(Goal::of_slowdown(SLOWDOWN));
    let question = PlanQuestion { scenario, rate, headroom: arguments.headroom, goal, workers };
    // With more workers the load is lower, and the same number of requests spans more simulated
    // time. So the most workers are checked.
    let load = question.load_at(question.planned_rate(), *question.workers.end());
    question.scenario.check(load)?;
    if arguments.slo.is_none() {
        let (goal, source) = default_goal(&question);
        return Ok((PlanQuestion { goal, ..question }, Some(source)));
    }
    match question.impossible() {
        None => Ok((question, None)),
        Some(figure) => Err(format!(
            "--slo {goal}: no number of workers holds it, as requests that never wait come to {}: write a limit above that",
            goal.shown(figure)
        )),
    }
}

/// The numbers of workers to consider. At the planned rate, `busy` workers are busy on average.
fn workers(arguments: &PlanArguments, busy: f64) -> Result<RangeInclusive<usize>, String> {
    let pools = arguments.policy.iter().any(|spec| spec.has_pools());
    if arguments.workers == Some(1) && pools {
        return Err("--policy pools needs two workers at least: leave pools out".to_owned());
    }
    // With exactly `busy` workers or fewer, the backlog would grow for ever.
    let least = busy.floor() as usize + 1;
    let (flag, most) = match arguments.workers {
        Some(workers) => ("--workers", usize::from(workers)),
        None => ("--workers-max", usize::from(arguments.workers_max)),
    };
    if least > most {
        return Err(format!(
            "the requests keep {busy:.1} workers busy with the headroom, and {flag} is {most}: raise it, or \
             lower the rate"
        ));
    }
    let least = if arguments.workers.is_some() { most } else { least };
    Ok(least..=most)
}

/// The fewest requests of a simulation. With fewer, its figures say nothing.
const REQUESTS_MIN: u64 = 1_000;

/// The usual default goal: a p99.9 slowdown of 10. If even an idle server has more than half of
/// that, the default goal is [`OF_IDLE`] times the idle server's figure.
const SLOWDOWN: f64 = 10.0;
const OF_IDLE: f64 = 2.0;

/// The default goal, and why it is this one.
fn default_goal(question: &PlanQuestion<'_>) -> (Goal, String) {
    let usual = Goal::of_slowdown(SLOWDOWN);
    let idle = question.idle(&usual);
    if idle * OF_IDLE <= SLOWDOWN {
        return (usual, "the usual one: --slo sets another".to_owned());
    }
    // Rounded up to two digits.
    let unit = 10.0_f64.powf((idle * OF_IDLE).log10().floor() - 1.0);
    let goal = Goal::of_slowdown((idle * OF_IDLE / unit).ceil() * unit);
    (goal, format!("twice the {} of an idle server, since that is above 5; --slo sets another", usual.shown(idle)))
}
