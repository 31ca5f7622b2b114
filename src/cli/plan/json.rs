//! The plan as JSON, schema `forebay-plan/1`. A figure that is infinite, because too many requests were not answered,
//! is `null`; `recommendation` is `null` where no policy holds the goal, and `sustained` then has the loads that the
//! policies seem to hold.

use super::text::toml;
use crate::cli::simulate::json::by_class;
use crate::lab::sim::Fleet;
use crate::lab::study::advice::{Advice, Findings, Report};
use crate::lab::study::goal::Goal;
use crate::lab::study::judge::{Judged, Verdict};
use crate::lab::study::scenario::Simulation;
use crate::lab::study::search::Held;
use crate::lab::study::workers::{Look, Question};
use serde_json::{Map, Value, json};

/// The document, indented, with a final newline.
pub(super) fn render(report: &Report<'_>) -> String {
    format!("{:#}\n", value(report))
}

fn value(report: &Report<'_>) -> Value {
    let question = &report.question;
    let goal = &question.goal;
    let scenario = &question.scenario;
    let (advice, impossible) = match &report.findings {
        Findings::Holds(advice) => (Some(advice), None),
        Findings::Impossible(held) => (None, Some(held)),
    };
    let answers = report.search.answers.iter().map(|answer| of_look(goal, &answer.look));
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
        "policies": answers.collect::<Vec<_>>(),
        "recommendation": advice.map(|advice| recommendation(question, advice)),
        "one_worker_less": report.search.less.as_ref().map(|less| of_look(goal, less)),
        "reasons": advice.map(|advice| &advice.reasons),
        "sensitivity": advice.map(|advice| sensitivity(goal, advice)),
        "sustained": impossible.map(|all| all.iter().map(|held| sustained(question, held)).collect::<Vec<_>>()),
    });
    if let Some(Fleet { servers, lost, balance }) = scenario.fleet {
        document["fleet"] = json!({"servers": servers, "lost": lost, "balance": balance.to_string()});
    }
    document
}

fn of_look(goal: &Goal, look: &Look) -> Value {
    let mut item = predicted(goal, &look.judged);
    item["policy"] = look.settings.spec.to_string().into();
    item["workers"] = look.settings.workers.into();
    item["sizes"] = look.settings.sizes.clone().into();
    item["chosen"] = look.judged.simulation.chosen.as_str().into();
    item
}

fn recommendation(question: &Question<'_>, advice: &Advice) -> Value {
    let mut item = of_look(&question.goal, &advice.look);
    let bare = |(key, value): &(&'static str, String)| ((*key).to_owned(), value.trim_matches('"').into());
    item["settings"] = advice.settings.iter().map(bare).collect::<Map<_, Value>>().into();
    item["config"] = toml(&advice.settings).into();
    item["holds_up_to"] = json!({"load": advice.look.judged.simulation.load, "rate": question.planned_rate()});
    item
}

fn sensitivity(goal: &Goal, advice: &Advice) -> Vec<Value> {
    let item = |change: &crate::lab::study::what_if::Change| {
        let mut item = predicted(goal, &change.judged);
        item["change"] = change.what.as_str().into();
        item
    };
    advice.changes.iter().map(item).collect()
}

fn predicted(goal: &Goal, judged: &Judged) -> Value {
    let mut item = figures(goal, &judged.simulation);
    item["verdict"] = judged.verdict.name().into();
    item["cause"] = judged.verdict.cause().map(|cause| cause.to_string()).into();
    item["undecided"] = (judged.verdict == Verdict::Undecided).into();
    item["measured"] = judged.requests.into();
    let seems = judged.verdict == Verdict::Undecided && goal.holds(&judged.simulation.tally);
    item["holds"] = (judged.verdict == Verdict::Holds || seems).into();
    item["unstable_from"] = judged.simulation.unstable_from.into();
    item
}

fn figures(goal: &Goal, simulation: &Simulation) -> Value {
    json!({
        "load": simulation.load,
        "figure": goal.figure(&simulation.tally),
        "slowdown": by_class(simulation.tally.slowdown()),
        "latency_us": by_class(simulation.tally.latency_us()),
    })
}

fn sustained(question: &Question<'_>, held: &Held) -> Value {
    let workers = held.settings.workers;
    json!({
        "policy": held.settings.spec.to_string(),
        "workers": workers,
        "load": held.load,
        "rate": question.rate_at(held.load, workers),
        "sizes": held.settings.sizes,
        "idle": held.idle.as_ref().map(|idle| figures(&question.goal, idle)),
    })
}
