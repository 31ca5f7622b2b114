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
mod page;
pub mod plan;
pub mod profile;
pub mod progress;
pub mod replay;
pub mod report;
mod results;
pub mod run;
pub mod sources;
#[cfg(test)]
mod tests;
pub mod text;
mod values;

use arguments::{Arguments, Command, RunArguments};
use clap::{CommandFactory, Parser};
use drive::flows;
use endpoint::Endpoint;
use failure::Failure;
use interrupt::Interrupt;
use plan::Plan;
use progress::Progress;
use report::validity::Validity;
use std::io::{Write, stderr};
use std::process::ExitCode;
use text::escaped;

/// The whole command line, for programs that make manual pages and completions.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command in the arguments of this process, and returns the exit code: 0 fine, 2 usage, 3
/// an invalid run, 5 a failure. A result that cannot be written is a failure, even if its reader
/// has gone.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told(&error),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Compare(arguments) => compare::compare(*arguments),
        Command::Simulate(arguments) => lab::simulate(&arguments).map(|()| Validity::Valid),
        Command::Plan(arguments) => lab::plan(&arguments).map(|()| Validity::Valid),
        Command::Calibrate(arguments) => lab::calibrate(&arguments).map(|()| Validity::Valid),
        Command::Serve { arguments } => return compare::server_process::serve(arguments),
    };
    match result {
        Ok(Validity::Valid) => ExitCode::SUCCESS,
        Ok(Validity::Invalid) => ExitCode::from(3),
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

fn run_command(arguments: &RunArguments) -> Result<Validity, Failure> {
    let profile = plan::chosen(arguments)?;
    let interrupt = Interrupt::listen()?;
    let endpoint = arguments.admin.as_deref().map(Endpoint::new).transpose()?;
    let (server, silence) = match endpoint.as_ref().map(Endpoint::latency) {
        None => (None, None),
        Some(Ok(view)) => (Some(view), None),
        Some(Err(error)) => (None, Some(error)),
    };
    let plan = match (Plan::of_run(arguments, profile, endpoint.as_ref(), server.as_ref()), silence) {
        // The failure lacks a value that the endpoint would have given.
        (Err(failure), Some(error)) => return Err(error.context(failure.to_string()).into()),
        (Ok(plan), Some(error)) => {
            // Printed before the run, not after it.
            let _ = writeln!(stderr(), "warning: the run will be INVALID: {}", escaped(&format!("{error:#}")));
            plan
        }
        (plan, None) => plan?,
    };
    if let Some(left_out) = plan.replay.as_ref().map(|replay| replay.left_out).filter(|left_out| *left_out > 0) {
        let _ =
            writeln!(stderr(), "warning: --replay lacks {left_out} arrivals of its server: the comments in it say why");
    }
    let outputs = arguments.offer.outputs()?;
    let flows = flows::open(plan.target, plan.flows, plan.sources)?;
    let progress = Progress::new("run", &plan, arguments.offer.quiet);
    let outcome = run::execute_on(&plan, &flows, endpoint.as_ref(), &interrupt, progress)?;
    let report = &outcome.report;
    outputs.finish(&report::text::render(&plan, report), || report, || report::text::page(&plan, report))?;
    Ok(report.verdict)
}
