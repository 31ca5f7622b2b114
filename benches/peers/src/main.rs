//! `peers`: the same service by Forebay, a bare loop, tokio and rayon, compared in one table.
//!
//! Each peer is started in turn, round after round, and one generator drives it. Figures are
//! medians over rounds; ratios are within a round. README.md says what the table does not show.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench tells people")]

mod cores;
mod cpus;
mod echo;
mod lineup;
mod mix;
mod peer;
mod results;
mod serve;
mod service;
mod sockets;

use anyhow::{Context, Result, anyhow};
use clap::{Parser, Subcommand, ValueEnum};
use cpus::Division;
use loadgen::compare::server_process::{self, ServerProcess};
use mix::{IN_A_HURRY, MIXES, Place};
use peer::{BARE, Peer};
use results::{Figure, Results};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs the same service as Forebay, as a bare loop, and on tokio and rayon, and prints one table.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
struct Arguments {
    /// One short round: shows that everything runs; its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100), conflicts_with = "quick")]
    rounds: u16,
    /// Measure only this part
    #[arg(long)]
    only: Option<Part>,
    /// Measured seconds of each run of a mix
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600), conflicts_with = "quick")]
    seconds: u64,
    /// Burn the mixes on this many real cores instead of emulated ones.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=16))]
    real: Option<u16>,
    /// Run only these peers, by their names in the table, and the bare loop
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    peers: Vec<String>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The datagram path on one CPU.
    Echo,
    /// Light requests among heavy ones.
    Mixes,
}

/// The role of this binary when it starts itself again.
#[derive(Debug, Subcommand)]
enum Command {
    /// Serve as a peer.
    #[command(name = "__serve-peer", hide = true)]
    ServePeer(serve::ServeArguments),
    /// Serve as Forebay.
    #[command(name = "__serve", hide = true, disable_help_flag = true)]
    ServeForebay {
        /// Arguments of `forebay serve`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match &arguments.command {
        Some(Command::ServePeer(peer)) => return serve::serve(peer),
        Some(Command::ServeForebay { arguments }) => return server_process::serve(arguments.clone()),
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
    // Every server inherits this: an emulated core must wake on time.
    nix::sys::prctl::set_timerslack(1).context("setting the timer slack")?;
    let mut results = Results::new(arguments.quick);
    let rounds = if arguments.quick { 1 } else { arguments.rounds };
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        if arguments.only != Some(Part::Mixes) {
            let division = Division::new(1, 1)?;
            arguments
                .each(lineup::echoing(), &division, &mut results, |server| echo::measure(server, arguments.quick))?;
        }
        if arguments.only != Some(Part::Echo) {
            let emulated = if arguments.quick { 4 } else { 14 };
            let place = arguments.real.map_or(Place::Emulated(emulated), Place::Real);
            let division =
                if let Place::Real(cores) = place { Division::new(cores.into(), 2)? } else { Division::Shared };
            let seconds = if arguments.quick { None } else { Some(arguments.seconds) };
            for mix in if arguments.quick { &IN_A_HURRY[..] } else { &MIXES } {
                let peers = lineup::burning(place, mix)?;
                arguments
                    .each(peers, &division, &mut results, |server| mix.offer(server, place, seconds, round.into()))?;
            }
        }
    }
    if let Some(path) = &arguments.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)? + "\n")?;
    }
    print!("{}", results.table());
    Ok(())
}

impl Arguments {
    /// Starts each requested peer of `peers`, and adds its figures.
    fn each(
        &self,
        peers: Vec<Peer>,
        division: &Division,
        results: &mut Results,
        measure: impl Fn(&ServerProcess) -> Result<Vec<Figure>>,
    ) -> Result<()> {
        let wanted =
            |peer: &Peer| self.peers.is_empty() || peer.name == BARE || self.peers.iter().any(|it| it == peer.name);
        for peer in peers.into_iter().filter(wanted) {
            let server = division.on_server_cpus(|| peer.start()).map_err(|failure| anyhow!("{failure}"))?;
            let figures = division.on_generator_cpus(|| measure(&server)).context(peer.name)?;
            results.add(peer.name, peer.uses, figures);
            server.stop().context(peer.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_is_consistent() {
        Arguments::command().debug_assert();
    }
}
