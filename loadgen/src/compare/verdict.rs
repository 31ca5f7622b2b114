//! Verdicts: how much better or worse one policy is than another, over all rounds.
//!
//! Each round gives one ratio of the two policies' percentiles. The interval is a Student's t
//! interval of the mean of the ratios' logarithms, so it includes differences between runs of one
//! server. The percentile is chosen before anything is measured: see [`percentiles`].
//!
//! A late host can only raise a percentile, so the percentile is then an upper bound. Each round
//! has a lower and an upper ratio; they give the two ends of the interval. A verdict may have only
//! one end.

use crate::compare::pooled::{by_arm, counts};
use crate::compare::virtual_time::VirtualTime;
use crate::compare::{ComparedRun, HEAVY, LIGHT};
use crate::drive::schedule::Request;
use crate::lab::stats::{self, Interval};
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::run_result::memory_of;
use crate::text::factor;
use forebay::inside::wire::CLASS_NAMES;
use forebay::metrics::{ALL_CLASSES, Percentile};
use serde::Serialize;

/// A verdict uses a percentile only if at least this many independent values are expected above it.
const ABOVE_MIN: f64 = 6.0;
/// If a comparison has several rounds, a verdict needs this many, and half of all.
const ROUNDS_MIN: usize = 3;
/// The percentiles that a verdict may use.
const TOLD: [Percentile; 3] = [Percentile::P99_9, Percentile::P99, Percentile::P90];

/// One policy compared with another.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    policy: String,
    against: String,
    class: &'static str,
    #[serde(serialize_with = "crate::text::as_text")]
    percentile: Percentile,
    /// Rounds in which the runs of both count.
    rounds: usize,
    /// The percentile of the other arm divided by the percentile of this arm. Above 1, `policy` is
    /// better. `None` if no round knows both.
    ratio: Option<f64>,
    /// The lower end of its 95 % interval; `None` without one.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// The same ratio in virtual time, if known.
    virtual_time: Option<f64>,
    /// Whether enough rounds count and give a ratio.
    pub(crate) is_usable: bool,
}

/// Two policies, a class and a percentile to compare.
#[derive(Clone, Debug)]
pub(crate) struct Question<'a> {
    policy: &'a str,
    against: &'a str,
    class: &'static str,
    percentile: Percentile,
}

/// The questions about `arms`. The last policy is compared with the first: for light requests, and
/// for heavy ones if there are any. It is compared with the second for light requests only.
pub(crate) fn questions<'a>(arms: &[&'a str], has_heavy: bool, percentiles: &ByClass<Percentile>) -> Vec<Question<'a>> {
    let [first, others @ ..] = arms else { return Vec::new() };
    let Some(policy) = others.last() else { return Vec::new() };
    let second = others.first().filter(|second| *second != policy);
    let (light, heavy) = if has_heavy { (LIGHT, Some(HEAVY)) } else { (ALL_CLASSES, None) };
    let asked = [Some((light, first)), second.map(|second| (light, second)), heavy.map(|heavy| (heavy, first))];
    let percentile = |class| *percentiles.of(class).expect("each class has one");
    let one =
        |(class, against): (&'static str, &&'a str)| Question { policy, against, class, percentile: percentile(class) };
    asked.into_iter().flatten().map(one).collect()
}

/// The verdicts of `runs` on `questions`.
pub(crate) fn verdicts(
    questions: &[Question<'_>],
    runs: &[ComparedRun],
    virtual_time: Option<&VirtualTime>,
) -> Vec<Verdict> {
    let arms = by_arm(runs);
    let of = |name: &str| arms.iter().find(|(arm, _)| *arm == name).map_or(&[][..], |(_, runs)| runs);
    let one = |question: &Question<'_>| {
        let simulated = virtual_time.and_then(|all| all.ratio(question));
        Verdict::of(question, of(question.policy), of(question.against), simulated)
    };
    questions.iter().map(one).collect()
}

/// The percentile that verdicts use, for each class: the highest of p90, p99 and p99.9 for which
/// there are enough values. At least six independent values must be expected above it in `rounds`
/// rounds of `plan`. If no percentile has as many, p90. Requests that wait behind the same heavy
/// request count as one value.
pub(crate) fn percentiles(plan: &Plan, requests: &[Request], rounds: u64) -> ByClass<Percentile> {
    let memory = memory_of(plan, requests, plan.load());
    let counted = || requests.iter().filter(|request| request.at >= plan.warmup);
    let all = counted().count() as f64;
    let told = |class: &'static str| {
        let is_own = |request: &&Request| class == ALL_CLASSES || CLASS_NAMES[usize::from(request.class)] == class;
        let own = counted().filter(is_own).count() as f64;
        let independent = memory.of_share(own / all.max(1.0)).effective_most((own * rounds as f64) as u64);
        let is_told = |percentile: &Percentile| independent * (1.0 - percentile.quantile()) >= ABOVE_MIN;
        (class, TOLD.into_iter().find(is_told).unwrap_or(Percentile::P90))
    };
    ByClass([ALL_CLASSES, LIGHT, HEAVY].map(told).to_vec())
}

impl Question<'_> {
    /// One sentence on a ratio of virtual time.
    fn said(&self, ratio: f64) -> String {
        let Question { policy, against, class, percentile } = self;
        let (word, ratio) = if ratio < 1.0 { ("higher", 1.0 / ratio) } else { ("lower", ratio) };
        let class = if *class == ALL_CLASSES { "all" } else { class };
        format!("{class} requests: {policy} {}x {word} {percentile} than {against}", factor(Some(ratio)))
    }
}

impl VirtualTime {
    /// The ratio of the figures of both policies. Above 1, the policy of `question` is better.
    /// `None` for two arms of one policy, because virtual time simulates each policy once.
    fn ratio(&self, question: &Question<'_>) -> Option<f64> {
        let [policy, against] =
            [question.policy, question.against].map(|arm| arm.split('#').next().unwrap_or_default());
        let known = |policy: &str| self.of(policy)?.of(question.class)?.percentile(question.percentile);
        if policy == against { None } else { Some(known(against)? / known(policy)?) }
    }

    /// One sentence per question with the answer of virtual time.
    pub(crate) fn said(&self, questions: &[Question<'_>]) -> Vec<String> {
        questions.iter().filter_map(|question| Some(question.said(self.ratio(question)?))).collect()
    }
}

impl Verdict {
    fn of(question: &Question<'_>, own: &[&ComparedRun], other: &[&ComparedRun], virtual_time: Option<f64>) -> Verdict {
        let Question { policy, against, class, percentile } = *question;
        let within = |run: &ComparedRun| run.report.compared_within(class, percentile);
        let ratios = pairs(own, other).into_iter().map(|(own, other)| ratio(within(other), within(own))).collect();
        let (ratios, rounds): (Vec<_>, _) = (sharpest(ratios), own.len().min(other.len()));
        let (ratio, Interval { low, high }) = over_rounds(&ratios);
        let enough = ratios.len() >= rounds.min(ROUNDS_MIN) && 2 * ratios.len() >= rounds;
        Verdict {
            policy: policy.to_owned(),
            against: against.to_owned(),
            class,
            percentile,
            rounds: ratios.len(),
            ratio,
            low: Some(low).filter(|low| *low > 0.0),
            high: Some(high).filter(|high| high.is_finite()),
            virtual_time,
            is_usable: enough && (low > 1.0 || high < 1.0 || low > 0.0 && high.is_finite()),
        }
    }

    /// One sentence.
    pub(crate) fn said(&self) -> String {
        let Verdict { policy, against, percentile, .. } = self;
        let class = if self.class == ALL_CLASSES { "all" } else { self.class };
        // The ratio is shown so that it is above 1: "2x higher", not "0.5x lower".
        let is_worse = self.high.is_some_and(|high| high < 1.0);
        let over = |value: Option<f64>| value.map(|value| 1.0 / value);
        let (word, ratio, low, high) = match is_worse {
            true => ("higher", over(self.ratio), over(self.high), over(self.low)),
            false => ("lower", self.ratio, self.low, self.high),
        };
        let shown = |value: f64| factor(Some(value));
        let told = match (ratio.map(shown), low.map(shown), high.map(shown)) {
            (Some(ratio), Some(least), Some(most)) if low > Some(1.0) => {
                format!("{policy} {ratio}x {word} {percentile} than {against} ({least} to {most})")
            }
            (_, Some(least), _) if low > Some(1.0) => {
                format!("{policy} at least {least}x {word} {percentile} than {against}")
            }
            (_, Some(least), Some(most)) => {
                format!("no difference shown between {policy} and {against} at {percentile} ({least}x to {most}x)")
            }
            _ => format!("{percentile} of {policy} against {against} is not known"),
        };
        let few = format!("; only {} rounds count for both", self.rounds);
        let is_known = low > Some(1.0) || high.is_some();
        format!("{class} requests: {told}{}", if self.is_usable || !is_known { "" } else { &few })
    }
}

/// Pairs of valid runs of both policies, one pair for each round. They have the same seed if
/// possible.
fn pairs<'r>(own: &[&'r ComparedRun], other: &[&'r ComparedRun]) -> Vec<(&'r ComparedRun, &'r ComparedRun)> {
    let [own, mut other] = [own, other].map(|runs| runs.iter().copied().filter(|run| counts(run)).collect::<Vec<_>>());
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for run in own {
        match other.iter().position(|other| other.report.seed == run.report.seed) {
            Some(at) => pairs.push((run, other.remove(at))),
            None => alone.push(run),
        }
    }
    // A repeated run has another seed, so it is paired with any run that is left.
    pairs.extend(alone.into_iter().zip(other));
    pairs
}

/// The rounds that the host did not disturb if there are enough of them, otherwise all rounds.
fn sharpest(ratios: Vec<Interval>) -> Vec<Interval> {
    let exact: Vec<Interval> = ratios.iter().copied().filter(|ratio| ratio.low == ratio.high).collect();
    if exact.len() >= ROUNDS_MIN && 2 * exact.len() >= ratios.len() { exact } else { ratios }
}

/// The ratio of one round: a percentile in the interval `above`, over a percentile in the interval
/// `below`.
fn ratio(above: Interval, below: Interval) -> Interval {
    let low = if below.high.is_finite() && below.high > 0.0 { above.low / below.high } else { 0.0 };
    let high = if below.low > 0.0 { above.high / below.low } else { f64::INFINITY };
    Interval { low, high }
}

/// The mean ratio of several rounds, and its interval. There is no mean if a ratio is not exact. If
/// rounds know only one side of their ratios, the interval has only one end.
fn over_rounds(ratios: &[Interval]) -> (Option<f64>, Interval) {
    let (lows, highs): (Vec<f64>, Vec<f64>) = ratios.iter().map(|ratio| (ratio.low, ratio.high)).unzip();
    let (least, most) = (stats::of_runs(&lows), stats::of_runs(&highs));
    let mean = (lows.iter().map(|ratio| ratio.ln()).sum::<f64>() / lows.len() as f64).exp();
    let mean = Some(mean).filter(|_| !ratios.is_empty() && lows == highs);
    (mean, Interval { low: least.low, high: most.high })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(ratio: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
        let (policy, against) = ("auto".to_owned(), "isolated".to_owned());
        let percentile = Percentile::P90;
        Verdict {
            policy,
            against,
            class: LIGHT,
            percentile,
            rounds: 4,
            ratio,
            low,
            high,
            virtual_time: None,
            is_usable: true,
        }
        .said()
    }

    #[test]
    fn a_verdict_is_better_worse_alike_or_bounded_on_one_side() {
        for (ratio, low, high, expected) in [
            (Some(135.2), Some(120.0), Some(152.0), "auto 135x lower p90 than isolated (120 to 152)"),
            (Some(0.5), Some(0.4), Some(0.8), "auto 2.00x higher p90 than isolated (1.25 to 2.50)"),
            (Some(1.1), Some(0.9), Some(1.3), "no difference shown between auto and isolated at p90 (0.90x to 1.30x)"),
            (None, Some(3.0), None, "auto at least 3.00x lower p90 than isolated"),
            (None, None, Some(0.25), "auto at least 4.00x higher p90 than isolated"),
            (None, None, None, "p90 of auto against isolated is not known"),
            (Some(2.0), None, None, "p90 of auto against isolated is not known"),
        ] {
            assert_eq!(said(ratio, low, high), format!("short requests: {expected}"));
        }
    }

    fn known(ratio: f64) -> Interval {
        Interval { low: ratio, high: ratio }
    }

    fn at_least(low: f64) -> Interval {
        Interval { low, high: f64::INFINITY }
    }

    // Is the interval Student's t interval for the logarithms? Does a round with an infinite
    // percentile leave the interval one end?
    #[test]
    fn rounds_give_one_interval() {
        let (mean, interval) = over_rounds(&[2.0, 4.0, 8.0].map(known));
        assert!((mean.expect("a mean") - 4.0).abs() < 1e-9);
        assert_eq!(interval, stats::of_runs(&[2.0, 4.0, 8.0]));
        let (mean, bound) = over_rounds(&[known(4.0), known(4.0), at_least(4.0)]);
        assert_eq!((mean, bound.high), (None, f64::INFINITY));
        assert!((bound.low - 4.0).abs() < 1e-9);
        assert_eq!(over_rounds(&[known(4.0), Interval::UNKNOWN]), (None, Interval::UNKNOWN));
        assert_eq!(over_rounds(&[]), (None, Interval::UNKNOWN));
    }

    // If one side is not known, or the host raised it, does the ratio have only one end?
    #[test]
    fn a_ratio_has_the_ends_that_both_sides_know() {
        let between = |low, high| Interval { low, high };
        assert_eq!(ratio(known(8.0), known(2.0)), known(4.0));
        assert_eq!(ratio(at_least(6.0), known(2.0)), at_least(3.0));
        assert_eq!(ratio(known(8.0), at_least(6.0)), between(0.0, 8.0 / 6.0));
        assert_eq!(ratio(at_least(6.0), at_least(6.0)), Interval::UNKNOWN);
        assert_eq!(ratio(known(8.0), between(0.0, 2.0)), at_least(4.0), "our figure is at most 2");
        assert_eq!(ratio(between(6.0, 8.0), between(1.0, 2.0)), between(3.0, 8.0));
        assert_eq!(ratio(between(0.0, 8.0), known(2.0)), between(0.0, 4.0), "theirs is at most 8");
    }

    // Are three undisturbed rounds of five enough for both ends, and two not?
    #[test]
    fn rounds_without_a_disturbance_go_first() {
        let rounds = |exact: usize| {
            let all = std::iter::repeat_n(known(4.0), exact).chain(std::iter::repeat_n(at_least(2.0), 5 - exact));
            sharpest(all.collect()).len()
        };
        assert_eq!([5, 4, 3, 2, 0].map(rounds), [5, 4, 3, 5, 5]);
    }

    // Does the percentile depend on the number of requests, and on how many of them wait together?
    #[test]
    fn the_percentile_is_what_the_plan_supports() {
        let plan = |cost: &str, rate: f64| Plan {
            workload: cost.parse().expect("a form"),
            rate,
            duration: forebay::time::Nanos::from_secs(3),
            warmup: forebay::time::Nanos::ZERO,
            ..crate::plan::test_plan()
        };
        let of = |plan: &Plan, rounds, class| {
            let schedule = crate::drive::schedule::draw(plan).expect("a schedule");
            *percentiles(plan, &schedule, rounds).of(class).expect("a class")
        };
        let alike = plan("fixed:10us", 5_000.0);
        assert_eq!(of(&alike, 4, ALL_CLASSES), Percentile::P99_9);
        assert_eq!(of(&plan("fixed:10us", 500.0), 1, ALL_CLASSES), Percentile::P99);
        assert_eq!(of(&plan("fixed:10us", 5.0), 1, ALL_CLASSES), Percentile::P90);
        // Of 60,000 requests at a load of .7, about 14 in a row wait behind the same heavy request.
        let mixed = Plan { workers: Some(1), ..plan("bimodal:0.99:10us:1ms", 35_000.0) };
        assert_eq!([4, 1].map(|rounds| of(&mixed, rounds, LIGHT)), [Percentile::P99_9, Percentile::P99]);
        assert_eq!([4, 1].map(|rounds| of(&mixed, rounds, HEAVY)), [Percentile::P99; 2]);
        assert_eq!(of(&Plan { rate: 5_000.0, ..mixed }, 1, HEAVY), Percentile::P90);
    }
}
