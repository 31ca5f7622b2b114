//! The plan as JSON, schema `forebay-plan/1`. A figure that is infinite, because too many requests were not answered,
//! is `null`; `recommendation` is `null` where no policy holds the goal, and `sustained` then has the loads that the
//! policies do hold.

use super::text::toml;
use crate::cli::simulate::json::by_class;
use crate::sim::study::advice::{Advice, Findings, Report};
use crate::sim::study::capacity::Sustained;
use crate::sim::study::scenario::Simulation;
use crate::sim::study::workers::{Answer, Held, Question};
use serde_json::{Map, Value, json};

/// The document, indented, with a final newline.
pub(super) fn render(report: &Report<'_>) -> String {
    format!("{:#}\n", value(report))
}

fn value(report: &Report<'_>) -> Value {
    let question = &report.question;
    let scenario = &question.scenario;
    let (advice, impossible) = match &report.findings {
        Findings::Holds(advice) => (Some(advice), None),
        Findings::Impossible(sustained) => (None, Some(sustained)),
    };
    json!({
        "schema": "forebay-plan/1",
        "goal": question.goal.to_string(),
        "demand": {
            "source": report.source,
            "workload": scenario.workload.name(),
            "rate": question.rate,
            "mean_us": scenario.workload.mean().as_micros_f64(),
            "busy_workers": scenario.workload.load_at(question.rate, 1, 1),
        },
        "overheads": scenario.overheads.to_string(),
        "seed": scenario.seed,
        "requests": scenario.requests,
        "policies": report.answers.iter().map(|answer| of_answer(question, answer)).collect::<Vec<_>>(),
        "recommendation": advice.map(|advice| recommendation(question, advice)),
        "reasons": advice.map(|advice| &advice.reasons),
        "sensitivity": advice.map(|advice| sensitivity(question, advice)),
        "sustained": impossible.map(|all| {
            let workers = *question.workers.end();
            let one = |held: &Held| {
                let mut item = sustained(question, workers, &held.sustained);
                item["idle"] = held.idle.as_ref().map(|idle| predicted(question, idle)).into();
                item
            };
            all.iter().map(one).collect::<Vec<_>>()
        }),
    })
}

fn of_answer(question: &Question<'_>, answer: &Answer) -> Value {
    let mut item = predicted(question, &answer.simulation);
    item["policy"] = answer.simulation.spec.to_string().into();
    item["workers"] = answer.workers.into();
    item["chosen"] = answer.simulation.chosen.as_str().into();
    item
}

fn recommendation(question: &Question<'_>, advice: &Advice) -> Value {
    let mut item = of_answer(question, &advice.answer);
    let bare = |(key, value): &(&'static str, String)| ((*key).to_owned(), value.trim_matches('"').into());
    item["settings"] = advice.settings.iter().map(bare).collect::<Map<_, Value>>().into();
    item["sizes"] = advice.answer.sizes.clone().into();
    item["config"] = toml(&advice.settings).into();
    item["holds_up_to"] = sustained(question, advice.answer.workers, &advice.sustained);
    item
}

fn sensitivity(question: &Question<'_>, advice: &Advice) -> Vec<Value> {
    let item = |change: &crate::sim::study::advice::Change| {
        let mut item = predicted(question, &change.simulation);
        item["change"] = change.what.as_str().into();
        item
    };
    advice.changes.iter().map(item).collect()
}

fn predicted(question: &Question<'_>, simulation: &Simulation) -> Value {
    let goal = &question.goal;
    json!({
        "load": simulation.load,
        "holds": goal.holds(&simulation.tally),
        "undecided": goal.is_undecided(&simulation.tally),
        "figure": goal.figure(&simulation.tally),
        "slowdown": by_class(simulation.tally.slowdown()),
        "latency_us": by_class(simulation.tally.latency_us()),
    })
}

fn sustained(question: &Question<'_>, workers: usize, found: &Sustained) -> Value {
    json!({
        "policy": found.spec.to_string(),
        "workers": workers,
        "load": found.max_load,
        "rate": question.scenario.workload.rate_at(found.max_load, workers, 1),
        "chosen": found.at.as_ref().map(|simulation| simulation.chosen.as_str()),
    })
}
