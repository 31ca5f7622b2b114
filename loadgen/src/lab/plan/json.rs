//! The plan as JSON, schema `forebay-plan/1`. A figure that is infinite, because too many requests
//! were not answered, is `null`. If no policy holds the goal, `recommendation` is `null`.

use super::text::toml;
use crate::lab::sim::Fleet;
use crate::lab::simulate::json::item;
use crate::lab::study::advice::{Advice, Report};
use crate::lab::study::judge::{Judged, Verdict};
use crate::lab::study::question::Question;
use serde_json::{Map, Value, json};

/// The document.
pub(super) fn document(report: &Report<'_>) -> Value {
    let question = &report.question;
    let scenario = &question.scenario;
    let advice = report.advice.as_ref();
    let sensitivity = |advice: &Advice| -> Vec<Value> {
        let changes = advice.changes.iter();
        changes.map(|change| with(judged(question, &change.judged), json!({"change": change.what}))).collect()
    };
    let mut document = json!({
        "schema": "forebay-plan/1",
        "goal": question.goal.to_string(),
        "demand": {
            "source": report.source,
            "workload": scenario.workload.name(),
            "rate": question.rate,
            "mean_us": scenario.workload.mean().as_micros_f64(),
            "busy_workers": scenario.workload.load_at(question.rate, 1, 1),
        },
        "headroom": question.headroom,
        "planned_rate": question.planned_rate(),
        "overheads": scenario.overheads.to_string(),
        "seed": scenario.seed,
        "requests": scenario.requests,
        "policies": report.search.answers.iter().map(|answer| judged(question, &answer.judged)).collect::<Vec<_>>(),
        "recommendation": advice.map(|advice| recommendation(question, advice)),
        "one_worker_less": report.search.less.as_ref().map(|less| judged(question, less)),
        "sensitivity": advice.map(sensitivity),
    });
    if let Some(Fleet { servers, lost, balance }) = scenario.fleet {
        document["fleet"] = json!({"servers": servers, "lost": lost, "balance": balance.to_string()});
    }
    document
}

/// `object` with the entries of another one.
fn with(mut object: Value, more: Value) -> Value {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
    object
}

fn recommendation(question: &Question<'_>, advice: &Advice) -> Value {
    let bare = |(key, value): &(&'static str, String)| ((*key).to_owned(), value.trim_matches('"').into());
    let more = json!({
        "settings": advice.settings.iter().map(bare).collect::<Map<_, Value>>(),
        "config": toml(&advice.settings),
        "holds_up_to": {"load": advice.judged.simulation.load, "rate": question.planned_rate()},
    });
    with(judged(question, &advice.judged), more)
}

/// A simulation, as `loadgen simulate` has it, and what it says of the goal.
fn judged(question: &Question<'_>, judged: &Judged) -> Value {
    let (goal, Judged { simulation, verdict, requests }) = (&question.goal, judged);
    let more = json!({
        "sizes": simulation.sizes,
        "figure": goal.figure(&simulation.tally),
        "verdict": verdict.name(),
        "cause": verdict.cause().map(|cause| cause.to_string()),
        "undecided": *verdict == Verdict::Undecided,
        "measured": requests,
        "holds": judged.seems(goal),
    });
    with(item(&question.scenario, simulation), more)
}
