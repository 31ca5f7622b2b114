//! Series of runs against one running server, each at another rate: `sweep` and `search`. README.md
//! says how a search goes, and what the JSON has.

mod bisection;
mod text;

use crate::arguments::{OfferArguments, RunArguments, SearchArguments, SweepArguments};
use crate::drive::flows;
use crate::failure::Failure;
use crate::lab::study::goal::Slo;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::json::RunReport;
use crate::report::slo::Held;
use crate::report::validity::Validity;
use crate::results::Outputs;
use crate::run;
use crate::setup::Setup;
use crate::text::rate;
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

/// A series, and its result as written to JSON (`forebay-series/1`).
#[derive(Serialize)]
struct Series<'a> {
    schema: &'static str,
    /// What must hold, if anything.
    slo: Option<&'a Slo>,
    /// At which rates it holds.
    answer: Option<Answer>,
    /// Each run, in the order in which they were made.
    runs: Vec<RunReport>,
    #[serde(skip)]
    setup: Setup,
    #[serde(skip)]
    offer: &'a OfferArguments,
    #[serde(skip)]
    began: Nanos,
}

/// Carries out `loadgen sweep` and returns the exit code.
///
/// # Errors
/// A usage failure for flags that do not fit; otherwise what went wrong.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<u8, Failure> {
    let (first, rates) = (first_of(arguments), &arguments.rates);
    let mut series = Series::new(&first)?;
    let outputs = series.offer.outputs()?;
    for (number, rate) in rates.iter().enumerate() {
        series.run(*rate, series.setup.plan.duration, &format!("{} of {}", number + 1, rates.len()))?;
        if series.setup.interrupt.is_raised() {
            break;
        }
    }
    let tried: Vec<_> = series.runs.iter().map(|run| (run.offered_rps, seen(run))).collect();
    series.answer = first.slo.as_ref().map(|_| Answer::of(&tried, None));
    series.write(&outputs)?;
    let is_known = series.runs.iter().any(|run| run.verdict == Validity::Valid);
    Ok(if is_known { Validity::Valid } else { Validity::Invalid }.exit_code())
}

/// Carries out `loadgen search` and returns the exit code.
///
/// # Errors
/// See [`sweep`].
pub(crate) fn search(arguments: &SearchArguments) -> Result<u8, Failure> {
    let mut series = Series::new(&arguments.run)?;
    let outputs = series.offer.outputs()?;
    let Plan { rate, duration, .. } = series.setup.plan;
    let least = REQUESTS_MIN / duration.as_secs_f64();
    let answer = bisection::search(rate, least, |rate| series.look(rate, arguments.max_time))?;
    let code = answer.exit_code();
    series.answer = Some(answer);
    series.write(&outputs)?;
    Ok(code)
}

/// The first run of a sweep.
pub(crate) fn first_of(arguments: &SweepArguments) -> RunArguments {
    let RunArguments { offer, .. } = arguments.run.clone();
    RunArguments { offer: OfferArguments { rate: Some(arguments.rates[0]), ..offer }, ..arguments.run.clone() }
}

impl<'a> Series<'a> {
    fn new(arguments: &'a RunArguments) -> Result<Series<'a>, Failure> {
        let (setup, slo, offer) = (Setup::of(arguments)?, arguments.slo.as_ref(), &arguments.offer);
        let (schema, answer, runs) = ("forebay-series/1", None, Vec::new());
        Ok(Series { schema, slo, answer, runs, setup, offer, began: clock::now() })
    }

    /// Makes the next run, with the next seed, and waits until its server has ended it.
    fn run(&mut self, at: f64, duration: Nanos, label: &str) -> Result<&RunReport, Failure> {
        let Setup { plan, endpoint, interrupt } = &self.setup;
        let seed = plan.seed.wrapping_add(self.runs.len() as u64);
        let plan = Plan { rate: at, duration, seed, ..plan.clone() };
        let flows = flows::open(plan.target, plan.flows, plan.sources)?;
        let progress = Progress::new(&format!("{label}, {}/s", rate(at)), &plan, self.offer.quiet);
        let report = run::execute_on(&plan, &flows, endpoint.as_ref(), interrupt, progress)?.report;
        if report.result.fates.answered < report.sent && !interrupt.is_raised() {
            flows::settle(&flows, SILENCE, plan.warmup.plus(duration));
        }
        self.runs.push(report.judged(self.slo));
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
            let report = self.run(at, duration, &format!("run {}", self.runs.len() + 1))?;
            match (seen(report), report.is_usable()) {
                ((Held::Undecided, _), true) if duration < first.times(LONGER) => duration = duration.times(2),
                ((Held::Undecided, _), false) if !is_repeated => is_repeated = true,
                (seen, _) => return Ok(Some(seen)),
            }
        }
    }

    fn write(&self, outputs: &Outputs) -> Result<(), Failure> {
        outputs.finish(&text::render(self), || self, || text::page(self))
    }
}

/// What a run says of its SLO, and why.
fn seen(report: &RunReport) -> Seen {
    match &report.slo {
        Some(judged) if report.is_usable() => (judged.verdict, judged.told()),
        _ => (Held::Undecided, format!("INVALID: {}", report.reasons.first().map_or("", String::as_str))),
    }
}
