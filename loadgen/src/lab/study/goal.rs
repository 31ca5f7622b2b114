//! Goals of the command line. A goal limits a percentile, like `p99.9-slowdown<=10`. An SLO has
//! several goals and a limit for losses, like `p99.9<500us,loss<0.01%`.

use crate::lab::sim::{Figure, Tally};
use crate::text::{factor, time};
use crate::values::number;
use forebay::fate::CLASS_NAMES;
use forebay::inside::sched::estimate::ServiceTimes;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A goal: a percentile of latency or slowdown, of all requests or of one class, and its upper
/// bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Goal {
    pub(crate) percentile: Percentile,
    /// The number of the goal's class; `None` for all.
    pub(crate) class: Option<u8>,
    pub(crate) is_latency: bool,
    /// The limit as a slowdown, or in microseconds.
    pub(crate) limit: f64,
}

impl Goal {
    /// A goal for p99.9 of the slowdown of all requests.
    pub(crate) fn of_slowdown(limit: f64) -> Goal {
        Goal { percentile: Percentile::P99_9, class: None, is_latency: false, limit }
    }

    /// The percentile of the goal in `tally`; infinite if too many requests were not answered.
    pub(crate) fn figure(&self, tally: &Tally) -> f64 {
        self.values(tally).percentile(self.class, self.percentile)
    }

    /// The figure of the goal for requests that never wait. `share` is the quantile. Each request
    /// takes one of `times`, and `beside` more.
    pub(super) fn of_alone(&self, times: &ServiceTimes, share: f64, beside: Nanos) -> f64 {
        if times.count() == 0 {
            0.0
        } else if self.is_latency {
            times.quantile(share).plus(beside).as_micros_f64()
        } else {
            // The shortest requests have the highest slowdowns.
            1.0 + beside.as_secs_f64() / times.quantile(1.0 - share).as_secs_f64()
        }
    }

    /// The values that the goal limits: latencies or slowdowns.
    pub(super) fn values<'t>(&self, tally: &'t Tally) -> &'t Figure {
        if self.is_latency { &tally.latency_us } else { &tally.slowdown }
    }

    /// The name of the percentile: `p99.9-slowdown`, `p99-latency-short`.
    pub(crate) fn name(&self) -> String {
        let class = self.class.map_or_else(String::new, |class| format!("-{}", CLASS_NAMES[usize::from(class)]));
        let kind = if self.is_latency { "latency" } else { "slowdown" };
        format!("{}-{kind}{class}", self.percentile)
    }

    /// A figure of the goal as text, with its unit.
    pub(crate) fn shown(&self, figure: f64) -> String {
        let finite = Some(figure).filter(|figure| figure.is_finite());
        if self.is_latency { time(finite) } else { factor(finite) }
    }

    /// Whether `tally` meets the goal.
    pub(crate) fn holds(&self, tally: &Tally) -> bool {
        self.figure(tally) <= self.limit
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_latency {
            true => write!(f, "{}<={}", self.name(), Nanos::new((self.limit * 1e3).round() as u64)),
            false => write!(f, "{}<={}", self.name(), self.limit),
        }
    }
}

impl FromStr for Goal {
    type Err = String;

    fn from_str(text: &str) -> Result<Goal, String> {
        let read = || {
            let (figure, limit) = sides(text)?;
            let mut parts = figure.splitn(3, '-');
            let percentile = parts.next()?.parse().ok()?;
            let figure = parts.next().unwrap_or("latency");
            let class = match parts.next() {
                None => None,
                Some(class) => Some(CLASS_NAMES.iter().position(|name| *name == class)? as u8),
            };
            let limit = match figure {
                "slowdown" => limit.parse().ok().filter(|limit| *limit >= 1.0 && *limit < 1e9)?,
                "latency" => limit.parse::<Nanos>().ok().filter(|limit| *limit > Nanos::ZERO)?.as_micros_f64(),
                _ => return None,
            };
            Some(Goal { percentile, class, is_latency: figure == "latency", limit })
        };
        read().ok_or_else(|| {
            format!(
                "`{text}` is no goal: write PERCENTILE-slowdown<=FACTOR or PERCENTILE-latency<=TIME, like p99.9-slowdown<=10 \
                 or p99<=2ms (percentiles: 50, 90, 99, 99.9, 99.95, 99.99; for one class: \
                 p99.9-slowdown-short<=10)"
            )
        })
    }
}

/// Both sides of `figure<=limit` or `figure<limit`. The two mean the same for measured values.
fn sides(text: &str) -> Option<(&str, &str)> {
    let (figure, limit) = text.split_once('<')?;
    Some((figure.trim(), limit.strip_prefix('=').unwrap_or(limit).trim()))
}

/// The conditions that a run must meet.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
#[serde(transparent)]
pub(crate) struct Slo {
    /// The text of the command line.
    pub(crate) text: String,
    /// One condition or several.
    #[serde(skip)]
    pub(crate) terms: Vec<Term>,
}

/// One condition of an SLO.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Term {
    /// The goal; `None` for a limit of losses, which counts requests without any answer.
    pub(crate) goal: Option<Goal>,
    pub(crate) limit: f64,
    /// The share of requests that may be above the limit.
    pub(crate) above: f64,
}

impl Slo {
    /// The goals for percentiles.
    pub(crate) fn goals(&self) -> impl Iterator<Item = &Goal> {
        self.terms.iter().filter_map(|term| term.goal.as_ref())
    }
}

impl FromStr for Slo {
    type Err = String;

    fn from_str(text: &str) -> Result<Slo, String> {
        let loss = |limit: &str| {
            let remedy = format!("`{limit}` is no loss: write 0.0001% to 50%, like loss<0.01%");
            number(limit.strip_suffix('%').unwrap_or_default(), 0.000_1..=50.0, &remedy).map(|percent| percent / 100.0)
        };
        let of_goal =
            |goal: Goal| Term { goal: Some(goal), limit: goal.limit, above: 1.0 - goal.percentile.quantile() };
        let term = |term: &str| match sides(term) {
            Some(("loss", limit)) => loss(limit).map(|above| Term { goal: None, limit: f64::MAX, above }),
            _ => term.parse().map(of_goal),
        };
        let terms = text.split(',').map(term).collect::<Result<_, _>>()?;
        Ok(Slo { text: text.to_owned(), terms })
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy_spec::PolicySpec;
    use super::super::scenario::Scenario;
    use super::*;
    use crate::lab::workload::Workload;
    use forebay::inside::emulation::overheads::Overheads;

    #[test]
    fn goals_are_read_as_they_are_shown() {
        for text in ["p99.9-slowdown<=10", "p99-latency<=2ms", "p99.95-slowdown-short<=1.5", "p50-latency-long<=1s"] {
            assert_eq!(text.parse::<Goal>().map(|goal| goal.to_string()), Ok(text.to_owned()));
        }
        assert_eq!(
            "99.9-slowdown <= 10".parse::<Goal>().map(|goal| goal.to_string()),
            Ok("p99.9-slowdown<=10".to_owned())
        );
        let goal: Goal = "p99-latency-short<=2ms".parse().expect("a goal");
        assert_eq!((goal.name().as_str(), goal.shown(1_234.5).as_str()), ("p99-latency-short", "1.23 ms"));
        assert_eq!(goal.shown(f64::INFINITY), "inf");
        for text in [
            "",
            "p99.9",
            "p98-slowdown<=10",
            "p99.9-slowdown=10",
            "p99.9-slowdown<=0.5",
            "p99.9<10",
            "loss<1%",
            "p99-latency<=2",
            "p99-latency-huge<=2ms",
            "p99-goodput<=1",
        ] {
            assert!(text.parse::<Goal>().is_err(), "{text} was taken");
        }
    }

    // Are several conditions read, also in their short forms, and is text that is no condition
    // refused by name?
    #[test]
    fn an_slo_has_goals_and_a_loss() {
        let slo: Slo = "p99.9<500us, p50-slowdown-short<=3,loss<0.01%".parse().expect("an SLO");
        let goals = slo.goals().map(Goal::to_string).collect::<Vec<_>>();
        assert_eq!(goals, ["p99.9-latency<=500us", "p50-slowdown-short<=3"]);
        assert_eq!((slo.terms[2].above, slo.terms[2].goal, slo.text.parse()), (0.000_1, None, Ok(slo.clone())));
        for (text, said) in [
            ("p99<500us,", "`` is no goal"),
            ("loss<0.01", "`0.01` is no loss: write 0.0001%"),
            ("loss<0%", "`0%` is no loss"),
            ("loss<51%", "no loss"),
            ("goodput<1%", "`goodput<1%` is no goal"),
        ] {
            assert!(text.parse::<Slo>().is_err_and(|error| error.contains(said)), "{text}");
        }
    }

    // Is the p99.9 of a run that is too short for its load reported as unknown? The number of
    // values alone would make it known.
    #[test]
    fn short_runs_cannot_tell() {
        let workload: Workload = "extreme-bimodal".parse().expect("a preset");
        let workload = workload.with_time_beside(Overheads::LAB.per_request());
        let run = |policy: &str, load| {
            let spec: PolicySpec = policy.parse().expect("a policy");
            Scenario::new(&workload, 14, Overheads::LAB, 1, 6_000).run(spec, load).tally
        };
        for (policy, load) in [("steal", 0.5), ("global", 0.7), ("levels", 0.9), ("pools", 0.9)] {
            let tally = run(policy, load);
            let block = tally.slowdown()[0].1;
            let bounds = block.bounds.expect("bounds");
            assert_eq!(bounds.interval(Percentile::P99_9).high, f64::INFINITY, "{policy}");
            assert!(!block.supports(Percentile::P99_9) && block.supported < Some(Percentile::P99_9), "{policy}");
        }
        let median = run("steal", 0.5).slowdown()[0].1.bounds.expect("bounds");
        assert!(median.interval(Percentile::P50).high < 10.0);
    }
}
