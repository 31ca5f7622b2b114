//! The load generator: offers an open-loop load to a UDP server of the bench protocol and measures what its clients see.
//!
//! The binary is [`main`]. What is public beside it is for whoever measures something else with the same schedule, sender,
//! receiver and figures (`benches/peers`); nothing here is published.

mod arguments;
pub mod by_class;
mod choices;
mod compare;
mod compare_text;
mod dump;
pub mod endpoint;
pub mod failure;
pub mod flows;
mod ground;
pub mod interrupt;
mod live;
mod pacer;
mod paired;
mod paired_text;
pub mod plan;
pub mod progress;
pub mod receiver;
pub mod report;
mod rounds_text;
pub mod run;
mod run_text;
pub mod schedule;
mod sender;
pub mod server_process;
pub mod tally;
pub mod text;
pub mod verdict;

use arguments::{Arguments, Command, RunArguments};
use clap::Parser;
use dump::Dump;
use endpoint::Endpoint;
use failure::Failure;
use interrupt::Interrupt;
use plan::Plan;
use progress::Progress;
use std::process::ExitCode;
use verdict::Verdict;

/// What the `loadgen` binary does with the arguments of this process; returns its exit code: 0 fine, 2 usage, 3 an invalid
/// run, 5 failed while running or unable to write its result (also to a reader that has gone).
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told(&error),
    };
    let result = match arguments.command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Serve { arguments } => return server_process::serve(arguments),
    };
    match result {
        Ok(Verdict::Valid) => ExitCode::SUCCESS,
        Ok(Verdict::Invalid) => ExitCode::from(3),
        Err(failure) => {
            failure.complain();
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Prints what clap has to say, help or a problem, and returns the exit code.
fn told(error: &clap::Error) -> ExitCode {
    match error.print() {
        // Help is a result; of a problem nobody is left to be told.
        Err(lost) if !error.use_stderr() => {
            let failure = Failure::Unwritten(lost);
            failure.complain();
            ExitCode::from(failure.exit_code())
        }
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

fn run_command(arguments: &RunArguments) -> Result<Verdict, Failure> {
    let interrupt = Interrupt::listen()?;
    let endpoint = arguments.admin.as_deref().map(Endpoint::new).transpose()?;
    let server = endpoint.as_ref().map(Endpoint::latency).transpose()?;
    let plan = Plan::of_run(arguments, server.as_ref())?;
    let flows = flows::open(plan.target, plan.flows)?;
    let dump = arguments.dump.as_deref();
    let dump = dump.map(|path| Dump::prepare(path, server.as_ref(), &plan, &flows)).transpose()?;
    let progress = Progress::new("run", &plan, arguments.offer.quiet);
    let outcome = run::execute_on(&plan, &flows, endpoint.as_ref(), &interrupt, progress)?;
    if let Some(dump) = &dump {
        dump.write(&plan, &outcome.course)?;
    }
    text::show(&run_text::render(&plan, &outcome.report))?;
    if let Some(path) = &arguments.offer.json {
        report::write_json(path, &outcome.report)?;
    }
    Ok(outcome.report.verdict)
}
