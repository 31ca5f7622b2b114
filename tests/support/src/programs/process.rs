//! The built binary as a child process, alone or with a settings file. Dropping it kills it.

use super::program::{FOREBAY, built};
use crate::http::config;
use crate::{await_until, listen};
use forebay::time::{Nanos, clock};
use nix::sys::signal::{Signal, kill};
use nix::time::clock_getcpuclockid;
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{fs, io};

/// A child process that is killed at the latest when it is dropped.
pub struct Process {
    pub child: Child,
}

impl Process {
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the child lives");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `forebay serve` with `flags` and an empty environment, on free ports unless `flags` set them.
pub fn serve(flags: &[&str]) -> Command {
    let mut command = Command::new(FOREBAY.path());
    let ports = [("--listen", listen()), ("--admin", "127.0.0.1:0".to_owned())];
    let ports = ports.into_iter().filter(|(flag, _)| !flags.contains(flag));
    command.env_clear().arg("serve").args(ports.flat_map(|(flag, value)| [flag.to_owned(), value])).args(flags);
    command
}

pub struct Forebay {
    pub process: Process,
    pub udp: SocketAddr,
    /// All addresses where it listens, `udp` first.
    pub addresses: Vec<SocketAddr>,
    pub admin: SocketAddr,
    output: BufReader<ChildStdout>,
}

impl Forebay {
    /// Starts it with `flags` and waits until it listens.
    pub fn start(flags: &[&str]) -> Forebay {
        Forebay::spawn(&mut serve(flags))
    }

    /// Starts `command`, which must print its addresses like `forebay serve`. Other lines may come
    /// before.
    pub fn spawn(command: &mut Command) -> Forebay {
        Forebay::spawn_to(command, Stdio::null())
    }

    /// The same, with standard error to `stderr`.
    pub fn spawn_to(command: &mut Command, stderr: Stdio) -> Forebay {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the program starts");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let process = Process { child };
        let mut line = String::new();
        while !line.contains("listening on udp ") {
            line.clear();
            assert!(output.read_line(&mut line).expect("text") > 0, "the program ended without listening");
        }
        let (udp, admin) = line.trim_end().rsplit_once(", admin http://").expect("both addresses");
        let udp = udp.rsplit(' ').next().expect("addresses").split(',').map(|udp| udp.parse().expect("an address"));
        let (addresses, admin) = (Vec::from_iter(udp), admin.parse().expect("an address"));
        Forebay { process, udp: addresses[0], addresses, admin, output }
    }

    pub fn id(&self) -> u32 {
        self.process.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Waits for its end; returns its exit status and its output after it began to listen.
    pub fn end(mut self) -> (ExitStatus, String) {
        let status = wait_for_exit(&mut self.process.child);
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("text");
        (status, said)
    }

    /// Waits for its end, which must be a success; returns its output after it began to listen.
    #[track_caller]
    pub fn ends_well(self) -> String {
        let (status, said) = self.end();
        assert_eq!(status.code(), Some(0), "{said}");
        said
    }

    /// Asks it to stop, and waits for its successful end.
    #[track_caller]
    pub fn stop(self) -> String {
        self.signal(Signal::SIGTERM);
        self.ends_well()
    }

    /// The content of `file` in `/proc` for each thread, by the thread's name.
    pub fn threads(&self, file: &str) -> BTreeMap<String, String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.id())).expect("the child lives");
        let tasks = tasks.map(|task| task.expect("a thread").path());
        // A thread may end before it is read.
        let read = |task: PathBuf| {
            let name = fs::read_to_string(task.join("comm")).ok()?;
            Some((name.trim_end().to_owned(), fs::read_to_string(task.join(file)).ok()?))
        };
        tasks.filter_map(read).collect()
    }

    /// Its threads, by name.
    pub fn thread_ids(&self) -> BTreeMap<String, Pid> {
        let id = |stat: &String| stat.split_whitespace().next()?.parse().ok();
        self.threads("stat").iter().filter_map(|(name, stat)| Some((name.clone(), Pid::from_raw(id(stat)?)))).collect()
    }

    /// User and system time of all its threads so far.
    pub fn cpu_time(&self) -> Nanos {
        let pid = i32::try_from(self.id()).expect("a process id");
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).expect("the child lives");
        Nanos::new(Duration::from(clock.now().expect("the child lives")).as_nanos() as u64)
    }
}

/// The number of `name` in the first line of a summary, or 0.
pub fn figure(said: &str, name: &str) -> u64 {
    let first = said.lines().next().expect("a summary");
    let found = first.split(", ").find_map(|part| part.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or(0)
}

/// The output of cargo in this repository.
pub fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(arguments).args(["--offline", "--locked"]);
    let output = command.output().expect("cargo starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The path of the example `name`, which cargo builds beside the folder of this program.
pub fn example(name: &str) -> PathBuf {
    let path = built(&format!("examples/{name}"));
    assert!(
        path.exists(),
        "{} is missing: cargo build --examples makes it, and cargo test without --test",
        path.display()
    );
    path
}

/// A command that runs only the test `name` of this binary. If `variable` is set, this test is a
/// server; otherwise it does nothing.
pub fn this_as(name: &str, variable: &str, value: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test binary"));
    command.args(["--exact", name, "--nocapture"]).env(variable, value);
    command
}

/// Waits for the end of `command`: its exit code, standard output and standard error.
pub fn ended(command: &mut Command) -> (Option<i32>, String, String) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program starts");
    // If a server runs unexpectedly, it does not end by itself.
    let mut process = Process { child };
    let code = wait_for_exit(&mut process.child).code();
    let (stdout, stderr) = (process.child.stdout.take().expect("a pipe"), process.child.stderr.take().expect("a pipe"));
    (code, io::read_to_string(stdout).expect("text"), io::read_to_string(stderr).expect("text"))
}

/// Waits until `child` has ended.
pub fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let (mut status, begin) = (None, clock::now());
    await_until(
        || {
            status = child.try_wait().expect("a child of ours");
            status.is_some()
        },
        &format!("the child has not ended since {begin}"),
    );
    status.expect("it has ended")
}

/// A server, its settings file, which it reads again at SIGHUP, and its log.
pub struct Configured {
    pub server: Forebay,
    directory: tempfile::TempDir,
}

impl Configured {
    pub fn start(text: &str) -> Configured {
        Configured::start_with(&["--workers", "2"], text)
    }

    pub fn start_with(flags: &[&str], text: &str) -> Configured {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("forebay.toml");
        fs::write(&file, text).expect("a file");
        let log = fs::File::create(directory.path().join("log")).expect("a file");
        let mut command = serve(flags);
        let server = Forebay::spawn_to(command.arg("--config").arg(file), Stdio::from(log));
        Configured { server, directory }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("forebay.toml")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.directory.path().join("log")).expect("text")
    }

    pub fn config(&self) -> Value {
        config(self.server.admin)
    }

    pub fn value(&self, key: &str) -> String {
        self.setting(key).0
    }

    /// The present value of `key`, and its origin.
    pub fn setting(&self, key: &str) -> (String, String) {
        let setting = &self.config()["settings"][key];
        let text = |part: &str| setting[part].as_str().expect("a text").to_owned();
        (text("value"), text("origin"))
    }

    /// Writes `text` to the file, lets the server read it, and returns the report of `/config`
    /// about it.
    pub fn reload(&self, text: &str) -> Value {
        fs::write(self.file(), text).expect("a file");
        let before = self.config()["reloads"].as_u64();
        self.server.signal(Signal::SIGHUP);
        await_until(|| self.config()["reloads"].as_u64() > before, "it does not read its file");
        self.config()["last_reload"].clone()
    }
}
