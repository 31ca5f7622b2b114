//! A peer, and how it is started. `lineup.rs` has the list.

use anyhow::{Context, Result, anyhow};
use loadgen::compare::server_process::ServerProcess;
use loadgen::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
    /// The Go program, with its arguments.
    Go(String),
}

/// The result of [`Peer::start`].
#[derive(Debug)]
pub(crate) enum Started {
    /// It runs.
    Running(ServerProcess),
    /// It cannot run on this machine, for this reason.
    Skipped(String),
}

impl Peer {
    pub(crate) fn new(name: &'static str, uses: &str, program: Program) -> Peer {
        Peer { name, uses: uses.to_owned(), program }
    }

    /// Starts the peer.
    ///
    /// # Errors
    /// If it should run here, and does not.
    pub(crate) fn start(&self) -> Result<Started, Failure> {
        let (program, words) = match &self.program {
            Program::Forebay(arguments) => {
                let ports = "__serve --listen 127.0.0.1:0 --admin 127.0.0.1:0";
                (own_program()?, format!("{ports} {arguments}"))
            }
            Program::Ours(arguments) => (own_program()?, format!("__serve-peer {arguments}")),
            Program::Go(arguments) => match go_program() {
                Ok(program) => (program.clone(), arguments.clone()),
                Err(reason) => return Ok(Started::Skipped(reason.clone())),
            },
        };
        let mut command = Command::new(program);
        command.args(words.split_whitespace());
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
            command.env_remove(name);
        }
        ServerProcess::launch(command, false).map(Started::Running)
    }
}

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding our own binary")
}

/// The Go peer's path, built once into the folder of this binary; or why there is none.
fn go_program() -> Result<&'static PathBuf, &'static String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(|| build_go().map_err(|error| format!("{error:#}"))).as_ref()
}

fn build_go() -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
    let own = own_program()?;
    let program = own.with_file_name("peers-go");
    let mut command = Command::new("go");
    command.current_dir(source).env("GOTOOLCHAIN", "local").args(["build", "-o"]).arg(&program).arg(".");
    let output = command.output().map_err(|error| anyhow!("there is no Go here ({error})"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "Go cannot build it: {}", said.trim_end());
    Ok(program)
}
