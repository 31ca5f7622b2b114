//! The plan as JSON, schema `forebay-plan/1`. A figure that is infinite, because so many requests were not answered, is
//! `null`; `recommendation` is where no policy holds the goal, and `sustained` then says what they do hold.

use super::text::toml;
use crate::cli::simulate::json::by_class;
use crate::sim::study::advice::{Advice, Report, Verdict};
use crate::sim::study::capacity::Sustained;
use crate::sim::study::scenario::Outcome;
use crate::sim::study::workers::{Answer, Held, Question};
use serde_json::{Map, Value, json};

/// The document, indented, with a final newline.
pub(super) fn render(report: &Report<'_>) -> String {
    format!("{:#}\n", value(report))
}

fn value(report: &Report<'_>) -> Value {
    let question = &report.question;
    let scene = &question.scene;
    let (advice, impossible) = match &report.verdict {
        Verdict::Holds(advice) => (Some(advice), None),
        Verdict::Impossible(sustained) => (None, Some(sustained)),
    };
    json!({
        "schema": "forebay-plan/1",
        "goal": question.goal.to_string(),
        "demand": {
            "source": report.source,
            "workload": scene.workload.name(),
            "rate": question.rate,
            "mean_us": scene.workload.mean().as_micros_f64(),
            "busy_workers": scene.workload.load_at(question.rate, 1, 1),
        },
        "overheads": scene.overheads.to_string(),
        "seed": scene.seed,
        "requests": scene.requests,
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
    let mut item = predicted(question, &answer.outcome);
    item["policy"] = answer.outcome.contender.to_string().into();
    item["workers"] = answer.workers.into();
    item["chosen"] = answer.outcome.chosen.as_str().into();
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
        let mut item = predicted(question, &change.outcome);
        item["change"] = change.what.as_str().into();
        item
    };
    advice.changes.iter().map(item).collect()
}

fn predicted(question: &Question<'_>, outcome: &Outcome) -> Value {
    let goal = &question.goal;
    json!({
        "load": outcome.load,
        "holds": goal.holds(&outcome.tally),
        "figure": goal.figure(&outcome.tally),
        "slowdown": by_class(outcome.tally.slowdown()),
        "latency_us": by_class(outcome.tally.latency_us()),
    })
}

fn sustained(question: &Question<'_>, workers: usize, found: &Sustained) -> Value {
    json!({
        "policy": found.contender.to_string(),
        "workers": workers,
        "load": found.max_load,
        "rate": question.scene.workload.rate_at(found.max_load, workers, 1),
        "chosen": found.at.as_ref().map(|outcome| outcome.chosen.as_str()),
    })
}
