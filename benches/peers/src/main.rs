//! `peers`: the same service by Forebay, a bare loop, tokio, rayon and Go, side by side.
//!
//! How fast is Forebay's datagram path beside others, and what do its policies do for short requests that others'
//! schedulers do not? Method: each peer is started in turn, pinned alike, round after round, and driven by one generator;
//! figures are medians over rounds, ratios are within a round. README.md says what the tables do not show.

mod arguments;
mod bimodal;
mod cores;
mod cpus;
mod drive;
mod echo;
mod figures;
mod line;
mod others;
mod peer;
mod report;
mod serve;
mod service;
mod sockets;

use anyhow::{Context, Result};
use arguments::{Arguments, Command, Section};
use clap::Parser;
use loadgen::server_process;
use others::Moment;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::ServePeer(peer)) => return serve::serve(&peer),
        Some(Command::ServeForebay { arguments }) => return server_process::serve(arguments),
        None => {}
    }
    match bench(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> Result<()> {
    // Inherited by every server: an emulated core must wake on time.
    nix::sys::prctl::set_timerslack(1).context("setting the timer slack")?;
    let mut report = Report::begin(arguments)?;
    for round in 0..arguments.rounds() {
        for section in arguments.sections() {
            eprintln!("round {} of {}, {section}", round + 1, arguments.rounds());
            let begin = Moment::now()?;
            match section {
                Section::Echo => echo::round(arguments, &mut report.echo)?,
                Section::Bimodal => bimodal::round(arguments, &mut report.bimodal)?,
            }
            report.others_cpus.push(Moment::now()?.others_since(&begin));
        }
    }
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    print!("{}", report.render());
    Ok(())
}
