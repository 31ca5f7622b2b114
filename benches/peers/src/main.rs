//! `peers`: the same service by Forebay, a bare loop, tokio, rayon and Go, side by side.
//!
//! How fast is Forebay's datagram path beside others, and what do its policies do for short requests that others'
//! schedulers do not? Method: each peer is started in turn, pinned alike, round after round, and driven by one generator;
//! figures are medians over rounds, ratios are within a round. README.md says what the tables do not show.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench tells people")]

mod arguments;
mod bimodal;
mod cores;
mod cpus;
mod drive;
mod echo;
mod figures;
mod line;
mod lineup;
mod mixes;
mod offer;
mod others;
mod pauses;
mod peer;
mod policies;
mod real;
mod real_text;
mod report;
mod section;
mod serve;
mod service;
mod sockets;
mod tables;
mod trial;

use anyhow::{Context, Result};
use arguments::{Arguments, Command};
use clap::Parser;
use loadgen::compare::server_process;
use others::Moment;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match &arguments.command {
        Some(Command::ServePeer(peer)) => return serve::serve(peer),
        Some(Command::ServeForebay { arguments }) => return server_process::serve(arguments.clone()),
        Some(Command::Policies(arguments)) => policies::policies(arguments),
        None => bench(&arguments),
    };
    match done {
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
    for section in arguments.sections() {
        let mut undisturbed = 0;
        // A machine that is never left alone ends the bench all the same.
        for _ in 0..2 * arguments.rounds() {
            eprintln!("{section}, round {} of {}", undisturbed + 1, arguments.rounds());
            let before = report.tables.clone();
            let seed = report.attempts() + 1;
            let begin = Moment::now()?;
            section.round(arguments, seed, &mut report.tables)?;
            let others = Moment::now()?.others_since(&begin);
            if section.has_to_be_alone() && others > OTHERS_MAX && !arguments.is_quick() {
                eprintln!("other processes took {others:.2} CPUs: this round does not count");
                report.tables = before;
                report.discarded += 1;
                continue;
            }
            report.others_cpus.push(others);
            undisturbed += 1;
            if undisturbed == arguments.rounds() {
                break;
            }
        }
    }
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    print!("{}", report.render()?);
    Ok(())
}

/// A round that has to be alone counts when processes that are none of this bench's took less CPU time than this many CPUs
/// have, whatever its figures are.
const OTHERS_MAX: f64 = 0.1;
