//! The load generator: offers an open-loop load to a UDP server, by the bench protocol or another
//! [`profile`], and measures what its clients see.
//!
//! The binary is [`main`]. The other public items are for programs that measure something else with
//! the same schedule, sender, receiver and figures (`benches/peers`). This crate is not published.

mod arguments;
pub mod compare;
pub mod drive;
pub mod endpoint;
pub mod failure;
pub mod interrupt;
pub mod lab;
mod merge;
mod page;
pub mod plan;
pub mod profile;
pub mod progress;
pub mod replay;
pub mod report;
mod results;
pub mod run;
mod series;
pub mod sources;
#[cfg(test)]
mod tests;
pub mod text;
mod values;

use arguments::{Arguments, Command, RunArguments};
use clap::{CommandFactory, Parser};
use failure::Failure;
use merge::Merged;
use progress::Progress;
use report::export;
use report::json::RunReport;
use report::slo::UNKNOWN;
use results::Exports;
use run::Outcome;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use series::Series;
use std::process::ExitCode;

/// The whole command line, for programs that make manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command in the arguments of this process, and returns the exit code; the help has a
/// table of them. A result that cannot be written is a failure, even if its reader has gone.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told(&error),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Sweep(arguments) => series::sweep(&arguments),
        Command::Search(arguments) => series::search(&arguments),
        Command::Compare(arguments) => compare::compare(*arguments).map(|is_known| if is_known { 0 } else { UNKNOWN }),
        Command::Simulate(arguments) => lab::simulate(&arguments).map(|()| 0),
        Command::Plan(arguments) => lab::plan(&arguments).map(|()| 0),
        Command::Calibrate(arguments) => lab::calibrate(&arguments).map(|()| 0),
        Command::Merge(arguments) => merge::merge(&arguments),
        Command::Schema => results::print(&format!("{:#}\n", schema())).map(|()| 0),
        Command::Serve { arguments } => return compare::server_process::serve(arguments),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.ended(),
    }
}

/// Prints clap's output, help or an error, and returns the exit code.
fn told(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Help is a result; an error that cannot be printed is lost.
        Err(lost) if !error.use_stderr() => Failure::of_result(&lost).ended(),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// The JSON Schema of the results of a run and of a series.
fn schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let of_runs = [generator.subschema_for::<RunReport>(), generator.subschema_for::<Merged>()];
    let results = [of_runs.as_slice(), &[generator.subschema_for::<Series<'_>>()]].concat();
    let definitions = generator.take_definitions(true);
    json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "anyOf": results, "$defs": definitions})
}

fn run_command(arguments: &RunArguments) -> Result<u8, Failure> {
    let (plan, endpoint, interrupt) = &run::prepare(arguments)?;
    let (outputs, mut exports) = (arguments.offer.outputs()?, Exports::open(&arguments.out)?);
    let progress = Progress::new("run", plan, arguments.offer.quiet);
    let Outcome { report, exchange, plan, .. } = run::execute(plan, endpoint.as_ref(), interrupt, progress)?;
    let report = &report.judged(arguments.slo.as_ref());
    exports.each(|format, text| export::add(format, text, &plan, report, &exchange));
    let exported = exports.write();
    outputs.finish(&report::text::render(&plan, report), || report, || report::text::page(&plan, report))?;
    exported.map(|()| report.exit_code())
}
