//! The plan as JSON, schema `forebay-plan/1`. A figure that is infinite, because too many requests were not answered, is
//! `null`. If no policy holds the goal, `recommendation` is `null`.

use super::text::toml;
use crate::cli::simulate::json::by_class;
use crate::lab::sim::Fleet;
use crate::lab::study::advice::{Advice, Report};
use crate::lab::study::goal::Goal;
use crate::lab::study::judge::{Judged, Verdict};
use crate::lab::study::question::Question;
use crate::lab::study::scenario::Simulation;
use serde_json::{Map, Value, json};

/// The document.
pub(super) fn document(report: &Report<'_>) -> Value {
    let question = &report.question;
    let (goal, scenario) = (&question.goal, &question.scenario);
    let advice = report.advice.as_ref();
    let sensitivity = |advice: &Advice| -> Vec<Value> {
        let changes = advice.changes.iter();
        changes.map(|change| with(predicted(goal, &change.judged), json!({"change": change.what}))).collect()
    };
    let mut document = json!({
        "schema": "forebay-plan/1",
        "goal": goal.to_string(),
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
        "policies": report.search.answers.iter().map(|answer| of_policy(goal, &answer.judged)).collect::<Vec<_>>(),
        "recommendation": advice.map(|advice| recommendation(question, advice)),
        "one_worker_less": report.search.less.as_ref().map(|less| of_policy(goal, less)),
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

fn of_policy(goal: &Goal, judged: &Judged) -> Value {
    let Simulation { spec, workers, sizes, chosen, .. } = &judged.simulation;
    let settings = json!({"policy": spec.to_string(), "workers": workers, "sizes": sizes, "chosen": chosen});
    with(predicted(goal, judged), settings)
}

fn recommendation(question: &Question<'_>, advice: &Advice) -> Value {
    let bare = |(key, value): &(&'static str, String)| ((*key).to_owned(), value.trim_matches('"').into());
    let more = json!({
        "settings": advice.settings.iter().map(bare).collect::<Map<_, Value>>(),
        "config": toml(&advice.settings),
        "holds_up_to": {"load": advice.judged.simulation.load, "rate": question.planned_rate()},
    });
    with(of_policy(&question.goal, &advice.judged), more)
}

fn predicted(goal: &Goal, judged: &Judged) -> Value {
    let Judged { simulation, verdict, requests } = judged;
    json!({
        "load": simulation.load,
        "figure": goal.figure(&simulation.tally),
        "slowdown": by_class(simulation.tally.slowdown()),
        "latency_us": by_class(simulation.tally.latency_us()),
        "verdict": verdict.name(),
        "cause": verdict.cause().map(|cause| cause.to_string()),
        "undecided": *verdict == Verdict::Undecided,
        "measured": requests,
        "holds": judged.seems(goal),
        "utilisation": simulation.tally.utilisation(),
        "unstable": simulation.tally.is_unstable(),
        "unstable_from": simulation.unstable_from,
    })
}
