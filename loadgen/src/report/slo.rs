//! Whether a run holds its SLO. The 95 % intervals of its figures decide, not the figures alone.

use crate::failure::Failure;
use crate::lab::stats::Interval;
use crate::lab::study::goal::{Goal, Slo, Term};
use crate::plan::Plan;
use crate::report::json::RunReport;
use crate::report::run_result::RunResult;
use crate::report::validity::raised_us;
use crate::text::factor;
use forebay::fate::CLASS_NAMES;
use forebay::metrics::{ALL_CLASSES, Percentile};
use serde::Serialize;

/// Whether an SLO holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Held {
    /// The interval of each term is within its limit.
    Holds,
    /// No interval is above its limit, and one contains it or is not known.
    Undecided,
    /// The interval of a term is above its limit, or its value is and grows.
    Fails,
}

/// What a run says about an SLO.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Judged {
    /// The SLO as `--slo` takes it.
    slo: String,
    pub(crate) verdict: Held,
    /// The terms on which the verdict rests, each with its value, interval and limit.
    pub(crate) terms: Vec<String>,
}

/// The plan of a run that must tell whether `slo` holds. Its percentile is the highest of the SLO
/// unless another one is given.
///
/// # Errors
/// A usage failure if the requests of `plan` do not have a figure or a class of the SLO.
pub(crate) fn planned(plan: Plan, slo: &Slo) -> Result<Plan, Failure> {
    let names = plan.class_names();
    for goal in slo.goals() {
        if !goal.is_latency && !plan.workload.has_costs() {
            return Err(Failure::usage(format!("--slo {goal}: the cost of these requests is not known; take latency")));
        }
        if class_of(goal) != ALL_CLASSES && !names.contains(&class_of(goal)) {
            return Err(Failure::usage(format!("--slo {goal}: these requests have no such class; leave it out")));
        }
    }
    let highest = slo.goals().map(|goal| goal.percentile).max();
    // The limit need not be known within a factor of 2 to be told from the figure.
    Ok(Plan { is_round: plan.percentile.is_none(), percentile: plan.percentile.or(highest), ..plan })
}

impl Judged {
    pub(crate) fn of(slo: &Slo, report: &RunReport) -> Judged {
        let terms: Vec<_> = slo.0.iter().map(|term| judged(term, report)).collect();
        let verdict = terms.iter().map(|(held, _)| *held).max().unwrap_or(Held::Undecided);
        let told = terms.into_iter().filter(|(held, _)| *held == verdict).map(|(_, told)| told);
        Judged { slo: slo.to_string(), verdict, terms: told.collect() }
    }

    /// The terms in one line.
    pub(crate) fn told(&self) -> String {
        self.terms.join("; ")
    }
}

fn class_of(goal: &Goal) -> &'static str {
    goal.class.map_or(ALL_CLASSES, |class| CLASS_NAMES[usize::from(class)])
}

/// What `report` says of `term`. Where the host was late, a figure fails only beyond what the host
/// may have added.
fn judged(term: &Term, report: &RunReport) -> (Held, String) {
    let result = &report.result;
    let raised_us = |percentile, latency_us| match report.effect {
        Some(_) => raised_us(result, &report.facts, percentile, latency_us).unwrap_or(f64::INFINITY),
        None => 0.0,
    };
    let Term::Goal(goal) = term else { return loss(term, result, raised_us(Percentile::P50, 0.0).is_finite()) };
    let (class, share) = (class_of(goal), goal.percentile.quantile());
    let figures = if goal.is_latency { &result.latencies } else { &result.slowdowns };
    let sample = figures.of(class).expect("the plan was checked");
    let memory = result.memory.of_share(sample.count() as f64 / figures.all().count().max(1) as f64);
    let unit_us = if goal.is_latency { 1.0 } else { *result.shortest_us.of(class).expect("as above") };
    let latency_us = result.latency_us.of(class).and_then(|block| block.percentile(goal.percentile));
    let raised = raised_us(goal.percentile, latency_us.unwrap_or(f64::INFINITY)) / unit_us;
    let (value, Interval { low, high }) = (sample.quantile(share), sample.interval(share, memory));
    // A run from an idle start looks too good, if anything: its lower end counts if it is short, too.
    let least = if sample.grows() { value } else { sample.seen(share, memory).low };
    let held = match high <= goal.limit {
        true => Held::Holds,
        false if least - raised > goal.limit => Held::Fails,
        false => Held::Undecided,
    };
    let [value, low, high, limit] = [value, low, high, goal.limit].map(|figure| goal.shown(figure));
    (held, format!("{} = {value} ({low} to {high}), limit {limit}", goal.name()))
}

/// What `result` says of a limit of the loss.
fn loss(term: &Term, result: &RunResult, is_own: bool) -> (Held, String) {
    let Term::Loss(limit) = term else { unreachable!("a goal is judged by its interval") };
    let held = match result.latencies.all().loses_less(*limit, result.memory) {
        Some(true) => Held::Holds,
        Some(false) if is_own => Held::Fails,
        _ => Held::Undecided,
    };
    let (all, percent) = (result.fates.sum(), |share: f64| factor(Some(share * 100.0)));
    let lost = (all - result.fates.answered) as f64 / all.max(1) as f64;
    (held, format!("loss = {} % of {all}, limit {} %", percent(lost), percent(*limit)))
}
