//! A server for a comparison: this same binary, started as another process.

use crate::failure::Failure;
use crate::text::escaped;
use anyhow::{Context, Result, anyhow};
use forebay::output;
use forebay::time::{Nanos, clock};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The subcommand that turns this binary into a server.
const SERVE: &str = "__serve";
/// The longest wait until a server is ready. On an idle machine it is ready well within a second;
/// on a machine that compiles it takes longer.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait until a server has stopped; its own limit for draining is 5 s.
const STOP_TIMEOUT: Nanos = Nanos::from_secs(10);
/// The longest time between the end of a process's output and the end of the process.
const EXIT_TIMEOUT: Nanos = Nanos::from_secs(1);
const STOP_LOOK: Duration = Duration::from_millis(10);
/// Lines kept of a server's log, to show if it fails.
const LOG_LINES_MAX: usize = 200;

/// A running server, killed when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    log: Option<JoinHandle<String>>,
    /// The UDP address where the server receives requests.
    pub udp: SocketAddr,
    /// The address of the server's admin endpoint.
    pub admin: String,
}

/// The main function of the process that [`ServerProcess::start`] starts. It serves like `forebay
/// serve` with `arguments`, until it is stopped or its parent has ended.
pub fn serve(arguments: Vec<OsString>) -> ExitCode {
    if let Err(error) = set_pdeathsig(Signal::SIGTERM) {
        output::complain(&format!("error: the system does not tell when the parent process ends: {error}"));
        return ExitCode::FAILURE;
    }
    let command = ["forebay", "serve"].map(OsString::from);
    forebay::inside::run(command.into_iter().chain(arguments))
}

/// Checks whether a server would accept `arguments`.
///
/// # Errors
/// A usage failure in the server's words if it would not.
pub(crate) fn check(arguments: &[String]) -> Result<(), Failure> {
    let output = command()?.args(arguments).arg("--check-config").output().context("checking the server's settings")?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(String::from_utf8_lossy(&output.stderr).trim_end()))
}

impl ServerProcess {
    /// Starts `forebay serve` with `arguments` and waits until it is ready. It passes no
    /// `FOREBAY_*` variables on, so only the arguments count. With `verbose` it shows the server's
    /// log.
    ///
    /// # Errors
    /// A usage failure when the server refuses its settings, otherwise the reason why it did not
    /// become ready.
    pub fn start(arguments: &[String], verbose: bool) -> Result<ServerProcess, Failure> {
        let mut command = command()?;
        command.args(arguments);
        ServerProcess::launch(command, verbose)
    }

    /// Starts `command`, which must behave like `forebay serve`. When it is ready it prints the
    /// same first line, with `admin none` if it has no admin endpoint. It ends with 0 on SIGTERM,
    /// and with 2 when it refuses its settings.
    ///
    /// # Errors
    /// See [`ServerProcess::start`].
    pub fn launch(mut command: Command, verbose: bool) -> Result<ServerProcess, Failure> {
        // Its own process group: Ctrl-C then reaches only this process, which reads the results
        // before it stops the server.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| anyhow!(output::unstarted("a server", &error)))?;
        let (lines, ready) = mpsc::channel();
        let stdout = child.stdout.take().expect("standard output is a pipe");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut server = ServerProcess { child, log: None, udp: unknown, admin: String::new() };
        let unread = |error| anyhow!(output::unstarted("what reads the output of a server", &error));
        thread::Builder::new().spawn(move || forward(stdout, &lines)).map_err(unread)?;
        server.log = Some(thread::Builder::new().spawn(move || keep_log(stderr, verbose)).map_err(unread)?);
        match wait_until_ready(&ready) {
            Ok((udp, admin)) => {
                (server.udp, server.admin) = (udp, admin);
                Ok(server)
            }
            Err(error) => Err(server.failure_to_start(error)),
        }
    }

    /// The process id of the server.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Stops the server as its operator would, with SIGTERM, and waits for its end.
    ///
    /// # Errors
    /// If it ends with another code than 0, or has to be killed; its log is part of the error.
    pub fn stop(mut self) -> Result<()> {
        // The kernel has no id above `i32::MAX`. If the process has already ended, the wait below
        // finds that out.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let status = self.wait(STOP_TIMEOUT)?;
        anyhow::ensure!(status.success(), "the server ended with {status}: {}", self.log());
        Ok(())
    }

    fn wait(&mut self, timeout: Nanos) -> Result<ExitStatus> {
        let deadline = clock::now().plus(timeout);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            anyhow::ensure!(clock::now() < deadline, "the server did not stop within {timeout}");
            thread::sleep(STOP_LOOK);
        }
    }

    fn failure_to_start(mut self, error: anyhow::Error) -> Failure {
        // A server that does not end is stuck, and its log may show where.
        let ended = self.wait(EXIT_TIMEOUT);
        self.kill();
        let log = self.log();
        match ended.map(|status| status.code()) {
            Ok(Some(2)) => refused(&log),
            _ => error.context(format!("the server did not start: {log}")).into(),
        }
    }

    fn kill(&mut self) {
        // Both calls fail only if the process has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The server's standard error. Call it after the server's end, because it reads until the pipe
    /// closes.
    fn log(&mut self) -> String {
        self.log.take().map_or_else(String::new, |log| log.join().expect("reading a log does not panic"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The command that starts this binary as a server. Its settings come only from arguments.
fn command() -> Result<Command> {
    let program = std::env::current_exe().context("finding our own binary")?;
    let mut command = Command::new(program);
    command.arg(SERVE).stdin(Stdio::null());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("FOREBAY_")) {
        command.env_remove(name);
    }
    Ok(command)
}

fn refused(log: &str) -> Failure {
    Failure::usage(format!("the server refused its settings: {log}"))
}

/// Sends all lines to `lines`. It goes on after the first line, because a full pipe would block the
/// server.
fn forward(stdout: impl Read, lines: &Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        // The channel has no receiver after the first line.
        let _ = lines.send(line);
    }
}

fn keep_log(stderr: impl Read, verbose: bool) -> String {
    let mut kept = VecDeque::new();
    for line in BufReader::new(stderr).lines().map_while(Result::ok) {
        let line = escaped(&line);
        if verbose {
            let _ = writeln!(io::stderr(), "server: {line}");
        }
        if kept.len() == LOG_LINES_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    Vec::from(kept).join("\n")
}

fn wait_until_ready(lines: &Receiver<String>) -> Result<(SocketAddr, String)> {
    let line = lines.recv_timeout(READY_TIMEOUT).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => anyhow!("it was not ready within {READY_TIMEOUT:?}"),
        mpsc::RecvTimeoutError::Disconnected => anyhow!("it ended before it was ready"),
    })?;
    addresses(&line).with_context(|| format!("its first line is `{}`, and not where it listens", escaped(&line)))
}

/// Parses a line like `listening on udp 127.0.0.1:40001, admin http://127.0.0.1:40002`.
fn addresses(line: &str) -> Option<(SocketAddr, String)> {
    let (udp, admin) = line.strip_prefix("listening on udp ")?.split_once(", admin ")?;
    Some((udp.parse().ok()?, admin.trim_end().to_owned()))
}
