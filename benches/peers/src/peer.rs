//! A peer, and how it is started. `lineup.rs` has the list.

use anyhow::{Context, Result};
use loadgen::compare::server_process::ServerProcess;
use loadgen::failure::Failure;
use std::process::Command;

/// Ratios are relative to this peer.
pub(crate) const BARE: &str = "bare";

#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    /// Techniques that make its figures better, in the words of README.md.
    pub(crate) uses: String,
    program: Program,
}

#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// Forebay, with arguments of `forebay serve`.
    Forebay(String),
    /// This binary, with arguments of its hidden subcommand.
    Ours(String),
}

impl Peer {
    pub(crate) fn new(name: &'static str, uses: &str, program: Program) -> Peer {
        Peer { name, uses: uses.to_owned(), program }
    }

    /// Starts the peer.
    ///
    /// # Errors
    /// If it does not run.
    pub(crate) fn start(&self) -> Result<ServerProcess, Failure> {
        let words = match &self.program {
            Program::Forebay(arguments) => {
                format!("__serve --listen 127.0.0.1:0 --admin 127.0.0.1:0 {arguments}")
            }
            Program::Ours(arguments) => format!("__serve-peer {arguments}"),
        };
        let mut command = Command::new(std::env::current_exe().context("finding our own binary")?);
        command.args(words.split_whitespace());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
            command.env_remove(name);
        }
        ServerProcess::launch(command, false)
    }
}
