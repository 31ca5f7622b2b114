//! `forebay plan`: the smallest number of workers, the policy and its sizes that hold a goal, found in virtual time.

mod arguments;
mod json;
mod measured;
mod text;

pub(super) use arguments::PlanArguments;

use super::results::{Failure, open, printed, write};
use super::simulate::progress::Bar;
use crate::sched::Sizes;
use crate::sim::study::advice::{Advice, Change, Findings, Report};
use crate::sim::study::policy_spec::PolicySpec;
use crate::sim::study::progress::Progress;
use crate::sim::study::scenario::Scenario;
use crate::sim::study::workers::{Answer, Question};
use crate::sim::study::{advice, parallel};
use crate::time::Nanos;
use crate::workload::Workload;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Plans what `arguments` ask for, writes the file that they name and returns the part of the report for standard
/// output.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(super) fn plan(arguments: &PlanArguments) -> Result<String, Failure> {
    let (workload, rate, source) = demand(arguments)?;
    let question = question(arguments, &workload, rate)?;
    let json = open("--json", &arguments.json)?;
    let progress = Bar::of_search(arguments.quiet);
    let answers = each(&question, arguments, &progress, Question::answer);
    let findings = match best(&question, &answers) {
        Some(answer) => Findings::Holds(Box::new(advice(&question, answer, &answers, &progress))),
        None => Findings::Impossible(each(&question, arguments, &progress, Question::sustained)),
    };
    progress.finish();
    let report = Report { question, source, answers, findings };
    write(&json, || json::render(&report))?;
    Ok(printed(text::render(&report), &[json.as_ref()]))
}

/// Checks `arguments`, without simulating.
///
/// # Errors
/// The message of [`plan`].
#[cfg(test)]
pub(super) fn check(arguments: &PlanArguments) -> Result<(), String> {
    let (workload, rate, _) = demand(arguments)?;
    question(arguments, &workload, rate).map(drop)
}

/// Answers the question for each policy, several at once.
fn each<'a, R: Send>(
    question: &Question<'a>,
    arguments: &PlanArguments,
    progress: &Bar,
    ask: impl Fn(&Question<'a>, PolicySpec, &dyn Progress) -> R + Sync,
) -> Vec<R> {
    let done = AtomicUsize::new(0);
    let stage = |done: usize| progress.stage(format!("{done} of {} policies done; ", arguments.policy.len()));
    stage(0);
    parallel::map(&arguments.policy, |spec| {
        let answer = ask(question, *spec, progress);
        // Ordering: relaxed, a count for display.
        stage(done.fetch_add(1, Ordering::Relaxed) + 1);
        answer
    })
}

/// The workload, its rate, and the source of both.
fn demand(arguments: &PlanArguments) -> Result<(Workload, f64, String), String> {
    let beside = arguments.overheads.per_request();
    if let Some(url) = &arguments.from {
        let measured = measured::ask(url)?;
        let source = format!("{url} ({}, {} workers)", measured.policy, measured.workers);
        let workers = arguments.workers.map(usize::from);
        let workload = measured.workload.with_time_beside(beside);
        let at_load = arguments.load.zip(workers).map(|(load, workers)| workload.rate_at(load, workers, 1));
        return Ok((workload, arguments.rate.or(at_load).unwrap_or(measured.rate), source));
    }
    let workload = arguments.workload.clone().expect("clap requires --workload or --from").with_time_beside(beside);
    let rate = match (arguments.rate, arguments.load, arguments.workers) {
        (Some(rate), _, _) => rate,
        (None, Some(load), Some(workers)) => workload.rate_at(load, usize::from(workers), 1),
        _ => return Err("say how much is offered: --rate N (requests/s), or --load SHARE with --workers N".to_owned()),
    };
    let source = workload.name().to_owned();
    Ok((workload, rate, source))
}

fn question<'a>(arguments: &PlanArguments, workload: &'a Workload, rate: f64) -> Result<Question<'a>, String> {
    let policies = &arguments.policy;
    if let Some(bound) = policies.iter().find(|spec| matches!(spec, PolicySpec::Reference(_))) {
        return Err(format!("--policy {bound}: it exists in simulation only, no server can follow it"));
    }
    let busy = workload.load_at(rate, 1, 1);
    let pools = policies.iter().any(|spec| spec.sizes() == Sizes::Pools);
    let least = (busy.ceil() as usize).max(if pools { 2 } else { 1 });
    let workers = match arguments.workers {
        Some(1) if pools => return Err("--policy pools needs two workers at least: leave pools out".to_owned()),
        Some(workers) => usize::from(workers)..=usize::from(workers),
        None if least > usize::from(arguments.workers_max) => {
            return Err(format!(
                "the requests keep {busy:.1} workers busy, and --workers-max is {}: raise it, or lower the rate",
                arguments.workers_max
            ));
        }
        None => least..=usize::from(arguments.workers_max),
    };
    let scenario = Scenario::new(workload, *workers.start(), arguments.overheads, arguments.seed, arguments.requests);
    let scenario = Scenario { slice: Some(scenario.budget()), ..scenario };
    let question = Question { scenario, rate, goal: arguments.slo, workers };
    // The more workers, the lower the load, and the longer a simulation lasts that looks for the highest one.
    let load = question.load_of(*question.workers.end());
    policies.iter().try_for_each(|spec| question.scenario.check(*spec, load))?;
    Ok(question)
}

/// The best answer: the fewest workers, among these the best figure, among equals the first.
fn best<'a>(question: &Question<'_>, answers: &'a [Answer]) -> Option<&'a Answer> {
    let figure = |answer: &Answer| question.goal.figure(&answer.simulation.tally);
    let holding = answers.iter().filter(|answer| answer.holds);
    holding.min_by(|a, b| a.workers.cmp(&b.workers).then_with(|| figure(a).total_cmp(&figure(b))))
}

/// The advice that follows from `answer`: settings, reasons, and what changes would do.
fn advice(question: &Question<'_>, answer: &Answer, answers: &[Answer], progress: &Bar) -> Advice {
    progress.stage("the choice is made; ".to_owned());
    progress.looks_at(format!("what {} does when things change", answer.simulation.spec));
    let workload = question.scenario.workload;
    let more_long = workload.with_more_long(long_from(question));
    let mut scenarios =
        vec![("20 % less load".to_owned(), 0.8, workload), ("20 % more load".to_owned(), 1.2, workload)];
    scenarios.extend(more_long.as_ref().ok().map(|more| (text::more_long(more.factor), 1.0, &more.workload)));
    let mut changes = parallel::map(&scenarios, |(what, factor, workload)| Change {
        what: what.clone(),
        simulation: question.otherwise(answer, *factor, workload, progress),
    });
    let neighbour = |(front, simulation)| Change { what: text::first_group(&simulation, front), simulation };
    changes.extend(question.neighbours(answer, progress).into_iter().map(neighbour));
    Advice {
        answer: answer.clone(),
        settings: advice::settings(question, answer),
        reasons: advice::reasons(question, answer, answers),
        sustained: question.headroom(answer, progress),
        changes,
        no_more_long: more_long.err(),
    }
}

/// The cost from which a request is long; `None` if no gap divides the costs.
fn long_from(question: &Question<'_>) -> Option<Nanos> {
    question.scenario.decision().budget()
}
