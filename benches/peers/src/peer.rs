//! The peers: their names, and how each is started.

use anyhow::{Context, Result, anyhow};
use loadgen::compare::server_process::ServerProcess;
use loadgen::failure::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Ratios are to this one.
pub(crate) const BARE: &str = "bare";

/// A peer in one section of the bench.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// As tables and JSON show it.
    pub(crate) name: &'static str,
    program: Program,
}

#[derive(Clone, Debug)]
enum Program {
    /// Forebay, with arguments of `forebay serve`.
    Forebay(String),
    /// This binary, with arguments of its hidden subcommand.
    Ours(String),
    /// The Go program, with its arguments.
    Go(String),
}

/// What [`Peer::start`] came to.
#[derive(Debug)]
pub(crate) enum Started {
    /// It runs.
    Running(ServerProcess),
    /// It cannot on this machine.
    Skipped(String),
}

impl Peer {
    /// Those that echo, on one CPU: one thread that serves each. `bare` is the first, because others are measured at half
    /// of its throughput.
    pub(crate) fn echoing() -> Vec<Peer> {
        let forebay = |name, flags| {
            let arguments = format!("--policy steal --workers 1 --pin --handler echo {flags}");
            Peer { name, program: Program::Forebay(arguments) }
        };
        let ours =
            |name, shape| Peer { name, program: Program::Ours(format!("--shape {shape} --threads 1 --cores 0")) };
        vec![
            ours(BARE, "bare"),
            forebay("forebay", "--wait adaptive"),
            forebay("forebay-trains", "--wait adaptive --io gro"),
            ours("tokio-task", "tokio-task"),
            ours("tokio-loop", "tokio-loop"),
            ours("rayon", "rayon"),
            Peer { name: "go-goroutine", program: Program::Go(String::new()) },
            ours("bare-spin", "bare-spin"),
            forebay("forebay-spin", "--wait spin"),
            forebay("forebay-park", "--wait park"),
        ]
    }

    /// Those that burn, on `cores` emulated cores; one microsecond lasts `time_scale`. None is charged for anything else.
    pub(crate) fn burning(cores: usize, time_scale: u64) -> Vec<Peer> {
        // The workers that extreme-bimodal's short class needs, rounded up, as `loadgen compare` chooses them.
        let front = (cores * 17).div_ceil(100).clamp(1, cores - 1);
        let back = cores - front;
        let forebay = |name, policy| {
            let arguments = format!(
                "--policy {policy} --workers {cores} --pools front={front},heavy={back} --slice 5us --classify none \
                 --handler spin --burn sleep --overheads none --time-scale {time_scale}"
            );
            Peer { name, program: Program::Forebay(arguments) }
        };
        let ours = |name, sizes: String| Peer { name, program: Program::Ours(format!("{sizes} --cores {cores}")) };
        let heavy_ns = HEAVY_NS * time_scale;
        vec![
            ours(BARE, format!("--shape bare --threads {cores}")),
            forebay("forebay-hybrid", "hybrid"),
            ours("tokio-task", format!("--shape tokio-task --threads {cores}")),
            forebay("forebay-ondemand", "ondemand"),
            ours("rayon", format!("--shape rayon --threads {cores}")),
            forebay("forebay-steal", "steal"),
            ours("tokio-loop", format!("--shape tokio-loop --threads {cores}")),
            ours("tokio-blocking", format!("--shape tokio-blocking --threads {cores} --heavy-ns {heavy_ns}")),
            ours(
                "tokio-split",
                format!("--shape tokio-blocking --threads {front} --blocking {back} --heavy-ns {heavy_ns}"),
            ),
            Peer { name: "go-goroutine", program: Program::Go(format!("-cores {cores}")) },
        ]
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it could run here, and does not.
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

/// Cheaper requests are light, before scaling: between the 0.5 us and the 500 us of extreme-bimodal.
const HEAVY_NS: u64 = 10_000;

fn own_program() -> Result<PathBuf> {
    std::env::current_exe().context("finding our own binary")
}

/// The Go peer, built once, beside this binary; or why there is none.
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
