//! `forebay plan`: the smallest number of workers, the policy and its sizes that hold a goal, found in virtual time.

mod arguments;
mod measured;
mod search;
mod text;

pub use arguments::PlanArguments;

use super::parallel;
use super::simulate::contender::Contender;
use super::simulate::progress::Progress;
use super::simulate::run::Scene;
use crate::sched::PolicyName;
use crate::workload::Workload;
use search::{Answer, Question};

/// Plans what `arguments` ask for and returns the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub fn plan(arguments: &PlanArguments) -> Result<String, String> {
    let (workload, rate, source) = demand(arguments)?;
    let question = question(arguments, &workload, rate)?;
    let progress = Progress::new(0, arguments.quiet);
    let answers = parallel::map(&arguments.policy, |contender| question.answer(*contender, &progress));
    let mut report = text::demand(&question, &source);
    report.push_str(&text::compared(&question, &answers));
    match best(&question, &answers) {
        Some(answer) => report.push_str(&advise(&question, answer, &answers, &progress)),
        None => {
            let sustained = parallel::map(&arguments.policy, |contender| question.sustained(*contender, &progress));
            report.push_str(&text::impossible(&question, &sustained));
        }
    }
    progress.finish();
    Ok(report)
}

/// What is offered, how much of it, and who says so.
fn demand(arguments: &PlanArguments) -> Result<(Workload, f64, String), String> {
    if let Some(url) = &arguments.from {
        let measured = measured::ask(url)?;
        let source = format!("{url} ({}, {} workers)", measured.policy, measured.workers);
        let workers = arguments.workers.map(usize::from);
        let at_load = arguments.load.zip(workers).map(|(load, workers)| measured.workload.rate_at(load, workers, 1));
        return Ok((measured.workload, arguments.rate.or(at_load).unwrap_or(measured.rate), source));
    }
    let workload = arguments.workload.clone().expect("clap requires --workload or --from");
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
    if let Some(bound) = policies.iter().find(|contender| matches!(contender, Contender::Reference(_))) {
        return Err(format!("--policy {bound}: it exists in simulation only, no server can follow it"));
    }
    let busy = workload.load_at(rate, 1, 1);
    let pools = policies.contains(&Contender::Server(PolicyName::Pools));
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
    let scene = Scene::new(workload, *workers.start(), arguments.overheads, arguments.seed, arguments.requests);
    Ok(Question { scene, rate, goal: arguments.slo, workers })
}

/// Of those that need the fewest workers the one with the best figure; of equals the first.
fn best<'a>(question: &Question<'_>, answers: &'a [Answer]) -> Option<&'a Answer> {
    let figure = |answer: &Answer| question.goal.figure(&answer.outcome.tally);
    let holding = answers.iter().filter(|answer| answer.holds);
    holding.min_by(|a, b| a.workers.cmp(&b.workers).then_with(|| figure(a).total_cmp(&figure(b))))
}

fn advise(question: &Question<'_>, answer: &Answer, answers: &[Answer], progress: &Progress) -> String {
    let slice = question.scene_of(answer.workers).slice_or_fitted();
    let mut report = text::recommended(question, answer, answers, &slice.to_string());
    let neighbours = question.neighbours(answer, progress);
    let load = question.load_of(answer.workers);
    let mut lines: Vec<(String, f64, f64)> = Vec::new();
    for (front, figure) in neighbours {
        lines.push((format!("{front} workers in the first group"), load, figure));
    }
    let workload = question.scene.workload;
    for (what, factor) in [("20 % less load", 0.8), ("20 % more load", 1.2)] {
        let (load, figure) = question.otherwise(answer, factor, workload, progress);
        lines.push((what.to_owned(), load, figure));
    }
    if let Some(doubled) = workload.with_long_doubled() {
        let (load, figure) = question.otherwise(answer, 1.0, &doubled, progress);
        lines.push(("twice the share of long requests".to_owned(), load, figure));
    }
    report.push_str(&text::sensitivity(&lines));
    report
}
