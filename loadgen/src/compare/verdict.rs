//! Verdicts: how much better or worse one policy is than another, over all rounds.
//!
//! Each round gives one ratio of the two policies' percentiles. The interval is a Student's t
//! interval of the mean of the ratios' logarithms, so it includes differences between runs of one
//! server. The percentile is chosen before anything is measured: see [`percentiles`]. If it gives
//! no verdict, as where the host was late by as much, a lower one does.
//!
//! A late host can only raise a percentile, so the percentile is then an upper bound. Each round
//! has a lower and an upper ratio; they give the two ends of the interval. A verdict may have only
//! one end.

mod rounds;

use crate::compare::pooled::{by_arm, counts};
use crate::compare::virtual_time::VirtualTime;
use crate::compare::{ComparedRun, HEAVY, LIGHT};
use crate::drive::schedule::Request;
use crate::lab::stats::Interval;
use crate::plan::Plan;
use crate::report::by_class::ByClass;
use crate::report::run_result::memory_of;
use crate::text::factor;
use forebay::inside::wire::CLASS_NAMES;
use forebay::metrics::{ALL_CLASSES, Percentile};
use rounds::{ArmFigures, Ratio};
use serde::Serialize;

/// A verdict uses a percentile only if at least this many independent values are expected above it.
const ABOVE_MIN: f64 = 6.0;
/// The percentiles that a verdict may use. The last one is not chosen, but may be all that is
/// known.
const TOLD: [Percentile; 4] = [Percentile::P99_9, Percentile::P99, Percentile::P90, Percentile::P50];

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
    /// Rounds that were planned.
    #[serde(skip)]
    planned: usize,
    /// The percentile of the other arm divided by the percentile of this arm. Above 1, `policy` is
    /// better. `None` if no round knows both.
    ratio: Option<f64>,
    /// The lower end of its 95 % interval; `None` without one.
    low: Option<f64>,
    /// The upper end.
    high: Option<f64>,
    /// The same ratio in virtual time, if known.
    virtual_time: Option<f64>,
    /// Whether enough rounds count for both.
    #[serde(skip)]
    is_enough: bool,
    /// Whether they also say which is better, or that both are alike within a factor of 2.
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

/// The verdicts of `runs` on `questions`, of so many `planned` rounds.
pub(crate) fn verdicts(
    questions: &[Question<'_>],
    runs: &[ComparedRun],
    planned: usize,
    virtual_time: Option<&VirtualTime>,
) -> Vec<Verdict> {
    let arms = by_arm(runs);
    let of = |name: &str| arms.iter().find(|(arm, _)| *arm == name).map_or(&[][..], |(_, runs)| runs);
    let one = |question: &Question<'_>| {
        let within = |run: &ComparedRun, percentile| run.report.compared_within(question.class, percentile);
        let seen = |arm: &str, percentile| {
            let known = of(arm).iter().filter(|run| counts(run));
            ArmFigures {
                made: of(arm).len(),
                known: known.map(|run| (run.report.seed, within(run, percentile))).collect(),
            }
        };
        Verdict::of(question, |percentile| {
            let simulated = virtual_time.and_then(|all| all.ratio(&Question { percentile, ..question.clone() }));
            let [own, other] = [question.policy, question.against].map(|arm| seen(arm, percentile));
            (Ratio::of(&own, &other, planned), simulated)
        })
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
        let chosen = TOLD.into_iter().find(is_told).unwrap_or(Percentile::P90);
        (class, chosen.max(Percentile::P90))
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
    /// The verdict at the percentile of `question`, or else at the highest lower one that gives
    /// one. `at` has the ratio at a percentile, and that of virtual time.
    fn of(question: &Question<'_>, at: impl Fn(Percentile) -> (Ratio, Option<f64>)) -> Verdict {
        let of = |percentile| {
            let (ratio, virtual_time) = at(percentile);
            Verdict::at(&Question { percentile, ..question.clone() }, ratio, virtual_time)
        };
        let mut told = TOLD.into_iter().filter(|percentile| *percentile <= question.percentile).map(of);
        told.find(|verdict| verdict.is_usable).unwrap_or_else(|| of(question.percentile))
    }

    fn at(question: &Question<'_>, ratio: Ratio, virtual_time: Option<f64>) -> Verdict {
        let Question { policy, against, class, percentile } = *question;
        let Ratio { rounds, planned, mean, interval: Interval { low, high }, is_enough } = ratio;
        Verdict {
            policy: policy.to_owned(),
            against: against.to_owned(),
            class,
            percentile,
            rounds,
            planned,
            ratio: mean,
            low: Some(low).filter(|low| *low > 0.0),
            high: Some(high).filter(|high| high.is_finite()),
            virtual_time,
            is_enough,
            is_usable: ratio.tells(),
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
            (_, Some(least), Some(most)) if self.is_usable => {
                format!("no difference shown between {policy} and {against} at {percentile} ({least}x to {most}x)")
            }
            (_, Some(least), Some(most)) => {
                format!("{percentile} of {policy} against {against} is not known ({least}x to {most}x)")
            }
            _ => format!("{percentile} of {policy} against {against} is not known"),
        };
        let few = match (self.is_enough, self.rounds, self.planned) {
            (true, ..) => String::new(),
            (false, 1, 1) => "; one round tells nothing of how much rounds differ".to_owned(),
            (false, rounds, planned) => format!("; only {rounds} of {planned} rounds count for both"),
        };
        format!("{class} requests: {told}{few}")
    }
}

#[cfg(test)]
mod tests;
