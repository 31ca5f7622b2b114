//! The `loadgen` binary: offers an open-loop load to a Forebay server and measures what its clients see.

mod arguments;
mod by_class;
mod choices;
mod compare;
mod compare_text;
mod endpoint;
mod failure;
mod flows;
mod interrupt;
mod live;
mod pacer;
mod plan;
mod progress;
mod receiver;
mod report;
mod run;
mod run_text;
mod schedule;
mod sender;
mod server_process;
mod tally;
mod text;
mod verdict;

use arguments::{Arguments, Command, RunArguments};
use clap::Parser;
use endpoint::Endpoint;
use failure::Failure;
use interrupt::Interrupt;
use plan::Plan;
use progress::Progress;
use std::process::ExitCode;
use verdict::Verdict;

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Run(arguments) => run_command(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Serve { arguments } => return server_process::serve(arguments),
    };
    match result {
        Ok(Verdict::Valid) => ExitCode::SUCCESS,
        Ok(Verdict::Invalid) => ExitCode::from(3),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run_command(arguments: &RunArguments) -> Result<Verdict, Failure> {
    let interrupt = Interrupt::listen()?;
    let endpoint = arguments.admin.as_deref().map(Endpoint::new).transpose()?;
    let server = endpoint.as_ref().map(Endpoint::latency).transpose()?;
    let plan = Plan::of_run(arguments, server.as_ref())?;
    let progress = Progress::new("run", &plan, arguments.offer.quiet);
    let outcome = run::execute(&plan, endpoint.as_ref(), &interrupt, progress)?;
    text::show(&run_text::render(&plan, &outcome.report));
    if let Some(path) = &arguments.offer.json {
        report::write_json(path, &outcome.report)?;
    }
    Ok(outcome.report.verdict)
}
