//! Series of runs against one running server, each at another rate: `sweep` and `search`. README.md
//! says how a search goes, and what the JSON has.

mod bisection;
mod text;

use crate::arguments::{OfferArguments, RunArguments, SearchArguments, SweepArguments};
use crate::failure::Failure;
use crate::lab::study::goal::Slo;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::export;
use crate::report::json::RunReport;
use crate::report::slo::{Held, UNHELD, UNKNOWN};
use crate::results::{Exports, Format, Outputs};
use crate::run::{self, Outcome, Setup};
use crate::text::rate;
use bisection::{Answer, Look, SloFigures};
use forebay::time::{Nanos, clock};
use schemars::JsonSchema;
use serde::Serialize;

/// A search tries no rate at which fewer requests come in a run.
const REQUESTS_MIN: f64 = 100.0;

/// A series, and its result as written to JSON (`forebay-series/1`).
#[derive(JsonSchema, Serialize)]
pub(crate) struct Series<'a> {
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
    exports: Exports,
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
        series.run(*rate, series.setup.0.duration, &format!("{} of {}", number + 1, rates.len()))?;
        if series.setup.2.is_raised() {
            break;
        }
    }
    series.answer = first.slo.as_ref().map(|_| Answer::of(&series.runs.iter().map(seen).collect::<Vec<_>>(), f64::MAX));
    series.finish(&outputs, if series.runs.iter().any(|run| run.verdict.is_usable()) { 0 } else { UNKNOWN })
}

/// Carries out `loadgen search` and returns the exit code.
///
/// # Errors
/// See [`sweep`].
pub(crate) fn search(arguments: &SearchArguments) -> Result<u8, Failure> {
    let mut series = Series::new(&arguments.run)?;
    let outputs = series.offer.outputs()?;
    let end = clock::now().plus(arguments.max_time);
    let answer = bisection::search(series.setup.0.rate, |rate| series.look(rate, end))?;
    let code = answer.exit_code();
    series.answer = Some(answer);
    series.finish(&outputs, code)
}

/// The first run of a sweep.
pub(crate) fn first_of(arguments: &SweepArguments) -> RunArguments {
    let RunArguments { offer, .. } = arguments.run.clone();
    RunArguments { offer: OfferArguments { rate: Some(arguments.rates[0]), ..offer }, ..arguments.run.clone() }
}

impl<'a> Series<'a> {
    fn new(arguments: &'a RunArguments) -> Result<Series<'a>, Failure> {
        let (setup, slo, offer) = (run::prepare(arguments)?, arguments.slo.as_ref(), &arguments.offer);
        let (schema, answer, runs) = ("forebay-series/1", None, Vec::new());
        Ok(Series { schema, slo, answer, runs, setup, offer, exports: Exports::open(&arguments.out)? })
    }

    /// Makes the next run, with the next seed.
    fn run(&mut self, at: f64, duration: Nanos, label: &str) -> Result<&RunReport, Failure> {
        let (plan, endpoint, interrupt) = &self.setup;
        let seed = plan.seed.wrapping_add(self.runs.len() as u64);
        let plan = Plan { rate: at, duration, seed, ..plan.clone() };
        let progress = Progress::new(&format!("{label}, {}/s", rate(at)), &plan, self.offer.quiet);
        let Outcome { report, exchange, plan, .. } = run::execute(&plan, endpoint.as_ref(), interrupt, progress)?;
        let report = report.judged(self.slo);
        self.exports.each(|format, text| export::add(format, text, &plan, &report, &exchange));
        self.runs.push(report);
        Ok(self.runs.last().expect("a run"))
    }

    /// Writes the results of a series that ends with `code`, and returns it.
    fn finish(&mut self, outputs: &Outputs, code: u8) -> Result<u8, Failure> {
        let said = self.answer.as_ref().map_or("no run is VALID".to_owned(), Answer::said);
        let kind = if code == UNHELD { "failure" } else { "error" };
        let case = ("the answer is known".to_owned(), (code != 0).then_some((kind, said)));
        self.exports.each(|format, text| {
            if format == Format::Junit {
                *text = export::junit(std::slice::from_ref(&case));
            }
        });
        let exported = self.exports.write();
        outputs.finish(&text::render(self), || &*self, || text::page(self))?;
        exported.map(|()| code)
    }

    /// Whether the SLO holds at this rate; `None` if no time is left to know it, or the rate is too
    /// low.
    fn look(&mut self, at: f64, end: Nanos) -> Result<Option<SloFigures>, Failure> {
        let Plan { duration: first, warmup, .. } = self.setup.0;
        let mut look = Look::first(first);
        loop {
            let is_late = clock::now().plus(warmup).plus(look.duration) > end;
            if is_late || self.setup.2.is_raised() || at * first.as_secs_f64() < REQUESTS_MIN {
                return Ok(None);
            }
            let report = self.run(at, look.duration, &format!("run {}", self.runs.len() + 1))?;
            let (seen, is_usable) = (seen(report), report.is_usable());
            match look.next(seen.verdict, is_usable) {
                Some(next) => look = next,
                None => return Ok(Some(seen)),
            }
        }
    }
}

/// What a run says of its SLO, and why.
fn seen(report: &RunReport) -> SloFigures {
    let (verdict, why) = match &report.slo {
        Some(judged) if report.is_usable() => (judged.verdict, judged.why.clone()),
        _ => (Held::Undecided, format!("INVALID: {}", report.reasons.first().map_or("", String::as_str))),
    };
    SloFigures { rps: report.offered_rps, verdict, why }
}
