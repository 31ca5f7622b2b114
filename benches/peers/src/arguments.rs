//! The command line.

use crate::policies::PoliciesArguments;
use crate::section::Section;
use crate::serve::ServeArguments;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs the same service as Forebay, as a bare loop, and on tokio, rayon and Go, side by side, and prints tables.
#[derive(Debug, Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// One short round: shows that everything runs, and no figure that means anything.
    #[arg(long)]
    quick: bool,
    /// Write the figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Rounds of each section; the tables show medians over them.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100), conflicts_with = "quick")]
    rounds: u16,
    /// Run this section only.
    #[arg(long)]
    only: Option<Section>,
    /// Seconds that each run of section `real` counts.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600), conflicts_with = "quick")]
    pub(crate) seconds: u64,
    /// Do not repeat a run of section `real` that is not valid; otherwise it is repeated once, when the machine is quiet.
    #[arg(long, conflicts_with = "quick")]
    pub(crate) once: bool,
    /// Run these peers only, by the names in the tables; the one that a section measures the others by always runs.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    pub(crate) peers: Vec<String>,
    /// Add the rounds to those that an earlier run wrote with --json.
    #[arg(long, value_name = "FILE")]
    pub(crate) add_to: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What this binary does instead, by itself or when it starts itself again.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(name = "policies")]
    Policies(Box<PoliciesArguments>),
    /// Serve as a peer.
    #[command(name = "__serve-peer", hide = true)]
    ServePeer(ServeArguments),
    /// Serve as Forebay.
    #[command(name = "__serve", hide = true, disable_help_flag = true)]
    ServeForebay {
        /// Of `forebay serve`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

impl Arguments {
    /// Whether only to show that everything runs.
    pub(crate) fn is_quick(&self) -> bool {
        self.quick
    }

    /// Rounds of each section.
    pub(crate) fn rounds(&self) -> u16 {
        if self.quick { 1 } else { self.rounds }
    }

    /// The sections to run.
    pub(crate) fn sections(&self) -> impl Iterator<Item = Section> {
        let only = self.only;
        Section::ALL.into_iter().filter(move |section| only.is_none_or(|only| only == *section))
    }

    /// Whether the peer of this name runs where `base` always does.
    pub(crate) fn wants(&self, peer: &str, base: &str) -> bool {
        self.peers.is_empty() || peer == base || self.peers.iter().any(|wanted| wanted == peer)
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
