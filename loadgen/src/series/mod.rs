//! Series of runs against one running server, each at another rate: `sweep` and `search`. README.md
//! says how a search goes, and what the JSON has.

mod bisection;
mod text;

use crate::arguments::{RunArguments, SearchArguments, SweepArguments};
use crate::drive::flows;
use crate::failure::Failure;
use crate::lab::study::goal::Slo;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::json::{RunReport, UNHELD};
use crate::report::slo::Held;
use crate::report::validity::Validity;
use crate::run;
use crate::setup::Setup;
use crate::text::rate as shown;
use bisection::{Answer, Seen};
use forebay::time::{Nanos, clock};
use serde::Serialize;

/// A server has ended what it had in its queues if nothing comes for this long.
const SILENCE: Nanos = Nanos::from_secs(1);
/// A run of a search that does not decide is repeated with twice its length, up to this many times
/// the length of the first.
const LONGER: u64 = 8;

/// A search tries no rate at which fewer requests come in a run.
const REQUESTS_MIN: f64 = 100.0;

/// The result of a series, as written to JSON (`forebay-series/1`).
#[derive(Debug, Serialize)]
pub(crate) struct SeriesReport {
    schema: &'static str,
    /// The SLO, if there is one.
    slo: Option<String>,
    /// At which rates it holds.
    answer: Option<Answer>,
    /// Each run, in the order in which they were made.
    runs: Vec<RunReport>,
}

/// The runs of a series so far, and what they share.
struct Series<'a> {
    setup: Setup,
    arguments: &'a RunArguments,
    began: Nanos,
    runs: Vec<RunReport>,
}

/// Carries out `loadgen sweep` and returns the exit code.
///
/// # Errors
/// A usage failure for flags that do not fit; otherwise what went wrong.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<u8, Failure> {
    let (run, first) = (&arguments.run, first_of(arguments)?);
    let mut series = Series::new(&first)?;
    let amounts = arguments.rates.as_deref().or(arguments.loads.as_deref()).unwrap_or_default();
    // A rate is proportional to its load.
    let unit = series.setup.plan.rate / amounts[0];
    let outputs = run.offer.outputs()?;
    for (number, amount) in amounts.iter().enumerate() {
        series.run(amount * unit, series.setup.plan.duration, &format!("{} of {}", number + 1, amounts.len()))?;
        if series.setup.interrupt.is_raised() {
            break;
        }
    }
    let tried: Vec<_> = series.runs.iter().map(|run| (run.offered_rps, seen(run))).collect();
    let answer = run.slo.as_ref().map(|_| Answer::of(&tried, None));
    let is_known = series.runs.iter().any(|run| run.verdict == Validity::Valid);
    series.finish(&outputs, answer)?;
    Ok(if is_known { Validity::Valid } else { Validity::Invalid }.exit_code())
}

/// Carries out `loadgen search` and returns the exit code.
///
/// # Errors
/// See [`sweep`].
pub(crate) fn search(arguments: &SearchArguments) -> Result<u8, Failure> {
    refuse(&arguments.run, &[])?;
    let mut series = Series::new(&arguments.run)?;
    let outputs = arguments.run.offer.outputs()?;
    let Plan { rate, duration, .. } = series.setup.plan;
    let least = REQUESTS_MIN / duration.as_secs_f64();
    let answer = bisection::search(rate, least, |rate| series.look(rate, arguments.max_time))?;
    let code = answer.exit_code();
    series.finish(&outputs, Some(answer))?;
    Ok(code)
}

/// The first run of a sweep.
///
/// # Errors
/// See [`refuse`].
pub(crate) fn first_of(arguments: &SweepArguments) -> Result<RunArguments, Failure> {
    let mut run = arguments.run.clone();
    refuse(&run, &[(run.offer.rate.is_some(), "--rate"), (run.offer.load.is_some(), "--load")])?;
    let first = |amounts: &Option<Vec<f64>>| amounts.as_ref().and_then(|amounts| amounts.first().copied());
    (run.offer.rate, run.offer.load) = (first(&arguments.rates), first(&arguments.loads));
    Ok(run)
}

/// Refuses flags of `run` that a series cannot have.
pub(crate) fn refuse(arguments: &RunArguments, given: &[(bool, &str)]) -> Result<(), Failure> {
    let replay = (arguments.replay.is_some(), "--replay");
    match given.iter().chain([&replay]).find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(Failure::usage(format!("{flag}: a series has rates of its own, leave it out"))),
        None => Ok(()),
    }
}

impl Series<'_> {
    fn new(arguments: &RunArguments) -> Result<Series<'_>, Failure> {
        Ok(Series { setup: Setup::of(arguments)?, arguments, began: clock::now(), runs: Vec::new() })
    }

    /// Makes the next run, with the next seed, and waits until its server has ended it.
    fn run(&mut self, at: f64, duration: Nanos, label: &str) -> Result<&RunReport, Failure> {
        let Setup { plan, endpoint, interrupt } = &self.setup;
        let seed = plan.seed.wrapping_add(self.runs.len() as u64);
        let plan = Plan { rate: at, duration, seed, ..plan.clone() };
        let flows = flows::open(plan.target, plan.flows, plan.sources)?;
        let label = format!("{label}, {}/s", shown(at));
        let progress = Progress::new(&label, &plan, self.arguments.offer.quiet);
        let outcome = run::execute_on(&plan, &flows, endpoint.as_ref(), interrupt, progress)?;
        if outcome.report.result.fates.answered < outcome.report.sent {
            flows::settle(&flows, SILENCE, plan.warmup.plus(duration));
        }
        self.runs.push(outcome.report.judged(self.arguments.slo.as_ref()));
        Ok(self.runs.last().expect("a run"))
    }

    /// Whether the SLO holds at this rate; `None` if no time is left to know it.
    fn look(&mut self, at: f64, most: Nanos) -> Result<Option<Seen>, Failure> {
        let Plan { duration: first, warmup, .. } = self.setup.plan;
        let (mut duration, mut is_repeated) = (first, false);
        loop {
            let ends = clock::now().plus(warmup).plus(duration).minus(self.began);
            if self.setup.interrupt.is_raised() || ends > most {
                return Ok(None);
            }
            let label = format!("run {}", self.runs.len() + 1);
            let report = self.run(at, duration, &label)?;
            let (held, why) = seen(report);
            match (held, report.is_usable()) {
                (Held::Undecided, true) if duration < first.times(LONGER) => duration = duration.times(2),
                (Held::Undecided, false) if !is_repeated => is_repeated = true,
                _ => return Ok(Some((held, why))),
            }
        }
    }

    fn finish(self, outputs: &crate::results::Outputs, answer: Option<Answer>) -> Result<(), Failure> {
        let slo = self.arguments.slo.as_ref();
        let report = SeriesReport { schema: "forebay-series/1", slo: slo.map(Slo::to_string), answer, runs: self.runs };
        let plan = &self.setup.plan;
        outputs.finish(&text::render(plan, &report), || &report, || text::page(plan, slo, &report))
    }
}

/// What a run says of its SLO, and why.
fn seen(report: &RunReport) -> Seen {
    match &report.slo {
        Some(judged) if report.is_usable() => (judged.verdict, judged.told()),
        _ => (Held::Undecided, format!("INVALID: {}", report.reasons.first().map_or("", String::as_str))),
    }
}
