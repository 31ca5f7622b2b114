//! Whether a run holds its SLO, with 95 % confidence.

use crate::failure::Failure;
use crate::lab::study::goal::{Goal, Slo, Term};
use crate::plan::Plan;
use crate::report::run_result::RunResult;
use crate::report::validity::{Facts, Validity, raised_us};
use crate::text::{factor, grouped};
use forebay::fate::CLASS_NAMES;
use forebay::metrics::ALL_CLASSES;
use schemars::JsonSchema;
use serde::Serialize;

/// The exit code where nothing is known.
pub(crate) const UNKNOWN: u8 = 3;
/// The exit code where an SLO is known not to hold.
pub(crate) const UNHELD: u8 = 4;

/// A run whose latency grows must hold the limit over this.
const GROWN: f64 = 2.0;

/// Whether an SLO holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Held {
    /// Each figure is below its limit in the long run.
    Holds,
    /// None is known to be above its limit, and one is not known to be below.
    Undecided,
    /// A figure is above its limit in the long run.
    Fails,
}

impl Held {
    /// One word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Held::Holds => "holds",
            Held::Undecided => "undecided",
            Held::Fails => "fails",
        }
    }
}

/// What a run says about an SLO.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub(crate) struct Judged {
    pub(crate) verdict: Held,
    /// The values and limits of the terms on which the verdict rests.
    pub(crate) why: String,
    /// Each term with its own verdict and figures.
    #[serde(skip)]
    pub(crate) terms: Vec<(String, Held, String)>,
}

/// The plan of a run that must tell whether `slo` holds. Its percentile is the highest of the SLO
/// unless another one is given.
///
/// # Errors
/// A usage failure if the requests of `plan` do not have a figure or a class of the SLO.
pub(crate) fn planned(plan: Plan, slo: &Slo) -> Result<Plan, Failure> {
    let is_unknown = |goal: &&Goal| {
        let has_class = goal.class.is_none() || plan.class_names().contains(&class_of(goal));
        !has_class || !goal.is_latency && !plan.workload.has_costs()
    };
    if let Some(goal) = slo.goals().find(is_unknown) {
        return Err(Failure::usage(format!("--slo {goal}: these requests have no such class, or no known cost")));
    }
    let highest = slo.goals().map(|goal| goal.percentile).max();
    // The limit need not be known within a factor of 2 to be told from the figure.
    Ok(plan.of_round(highest))
}

impl Judged {
    /// What a run of this `validity` says about `slo`.
    pub(crate) fn of(slo: &Slo, result: &RunResult, facts: &Facts, validity: Validity) -> Judged {
        let terms: Vec<_> = slo.terms.iter().map(|term| judged(term, result, facts, validity)).collect();
        let verdict = terms.iter().map(|(_, held, _)| *held).max().unwrap_or(Held::Undecided);
        let told = terms.iter().filter(|(_, held, _)| *held == verdict).map(|(.., told)| told.as_str());
        Judged { verdict, why: told.collect::<Vec<_>>().join("; "), terms }
    }
}

fn class_of(goal: &Goal) -> &'static str {
    goal.class.map_or(ALL_CLASSES, |class| CLASS_NAMES[usize::from(class)])
}

/// What a run says of `term`, behind its name. Where the host was late, a figure is an upper bound.
/// Then it fails only beyond what the host may have added; up to there it is not known. What this
/// host disturbed is above the limit where the term is to hold, and below it where it is to fail.
fn judged(term: &Term, result: &RunResult, facts: &Facts, validity: Validity) -> (String, Held, String) {
    let Term { goal, limit, above } = *term;
    let (class, percentile) = goal.map_or((ALL_CLASSES, facts.percentile), |goal| (class_of(&goal), goal.percentile));
    let (most, least, unit_us) = match goal {
        Some(Goal { is_latency: false, .. }) => {
            (&result.slowdowns, &result.least_slowdowns, *result.shortest_us.of(class).expect("a class"))
        }
        _ => (&result.latencies, &result.least_latencies, 1.0),
    };
    let [sample, least] = [most, least].map(|figures| figures.of(class).expect("the plan was checked"));
    let memory = result.memory.of_share(sample.count() as f64 / most.all().count().max(1) as f64);
    let latency_us = result.latency_us.of(class).and_then(|block| block.percentile(percentile));
    let raised_us = || raised_us(result, facts, percentile, latency_us.unwrap_or(f64::INFINITY));
    let may_add = if validity == Validity::Valid { 0.0 } else { raised_us().unwrap_or(f64::INFINITY) };
    let beyond = limit + may_add / unit_us;
    let [value, least_value] = [sample, least].map(|sample| sample.quantile(1.0 - above));
    // A latency that grows must stay below the limit for twice as long.
    let held = match sample.is_below(if sample.grows() { limit / GROWN } else { limit }, above, memory) {
        Some(true) => Held::Holds,
        _ if least.is_below(beyond, above, memory) == Some(false) => Held::Fails,
        _ if least.grows() && least_value > beyond => Held::Fails,
        _ => Held::Undecided,
    };
    let percent = |share: f64| format!("{} % of {}", factor(Some(share * 100.0)), grouped(sample.count()));
    let (share, most) = (percent(sample.above(limit)), factor(Some(above * 100.0)));
    let sign = match (validity, held) {
        (Validity::AtMost, Held::Holds | Held::Undecided) => "at most ",
        _ => "",
    };
    let told = |goal: Goal| {
        let (value, limit, added) = (goal.shown(value), goal.shown(limit), goal.shown(may_add / unit_us));
        let added = if may_add > 0.0 && held == Held::Fails {
            format!("; this host added at most {added}")
        } else {
            String::new()
        };
        format!("{} = {sign}{value}, limit {limit}: {sign}{share} are above{added}", goal.name())
    };
    let name = goal.map_or_else(|| format!("loss<={most}%"), |goal| goal.to_string());
    (name, held, goal.map_or_else(|| format!("loss = {sign}{share}, limit {most} %"), told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::by_class::{ByClass, Values};
    use crate::report::validity::tests::{result, sound};

    /// What a run says about `slo` whose requests take `latency_us` and are sent `slip_us` late.
    /// One of 1,000 is not answered.
    fn judged(slo: &str, latency_us: f64, slip_us: f64, validity: Validity) -> Judged {
        let mut all = Values::default();
        (0..20_000).for_each(|id| all.add(if id % 1_000 == 0 { f64::INFINITY } else { latency_us }));
        let latencies = ByClass(vec![(ALL_CLASSES, all.sample())]);
        let least_latencies = latencies.clone();
        let result = RunResult { latencies, least_latencies, ..result(latency_us, slip_us, 0) };
        Judged::of(&slo.parse().expect("an SLO"), &result, &sound(), validity)
    }

    // Does an SLO hold that holds for an upper bound? Does it fail only beyond what the host may
    // have added, and is it not known in between? A loss is no matter of late sends.
    #[test]
    fn a_bound_holds_and_what_it_fails_is_not_known() {
        for (slo, slip_us, validity, held, said) in [
            ("p99<200us", 30.0, Validity::Valid, Held::Holds, "p99-latency = 101 us"),
            ("p99<200us", 30.0, Validity::AtMost, Held::Holds, "p99-latency = at most 101 us"),
            ("p99<90us", 30.0, Validity::Valid, Held::Fails, "p99-latency = 101 us"),
            ("p99<90us", 30.0, Validity::AtMost, Held::Undecided, "limit 90.0 us: at most 100 % of 20,000"),
            ("p99<60us", 30.0, Validity::AtMost, Held::Fails, "are above; this host added at most 30.0 us"),
            ("p99<90us", 1.0, Validity::AtMost, Held::Fails, "are above"),
            ("loss<1%", 30.0, Validity::AtMost, Held::Holds, "loss = at most 0.10 % of 20,000, limit 1.00 %"),
            ("loss<0.01%", 30.0, Validity::AtMost, Held::Fails, "loss = 0.10 % of 20,000"),
        ] {
            let Judged { verdict, why, .. } = judged(slo, 100.0, slip_us, validity);
            assert_eq!(verdict, held, "{slo}: {why}");
            assert!(why.contains(said), "{slo}: {why}");
        }
    }
}
