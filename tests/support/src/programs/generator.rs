//! A `loadgen run` in a process of its own that can be stopped and looked at, and servers for it.

use super::process::Forebay;
use super::program::LOADGEN;
use forebay::inside::wire::{Header, Kind};
use forebay::time::{Nanos, clock};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::ffi::OsStr;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Runs `loadgen` with `flags`, separated by blanks: its exit code, standard output and standard
/// error.
pub fn loadgen(flags: &str) -> (Option<i32>, String, String) {
    let output = Command::new(LOADGEN.path()).args(flags.split_whitespace()).output().expect("loadgen runs");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (output.status.code(), stdout, stderr)
}

pub struct Run {
    pub report: Value,
    pub code: Option<i32>,
    pub output: Output,
}

impl Run {
    pub fn of(file: &Path, output: Output) -> Run {
        let text = std::fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Run { report: serde_json::from_str(&text).expect("JSON"), code: output.status.code(), output }
    }

    pub fn reasons(&self) -> String {
        let reasons = self.report["reasons"].as_array().expect("a list").iter().filter_map(Value::as_str);
        reasons.collect::<Vec<_>>().join("\n")
    }

    /// The report, the exit code and what people read say so, and give that reason.
    pub fn is_invalid(&self, reason: &str) {
        assert!(self.reasons().contains(reason), "no {reason:?} in:\n{}", self.reasons());
        assert_eq!((self.report["verdict"].as_str(), self.code), (Some("INVALID"), Some(3)));
        let text = String::from_utf8_lossy(&self.output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("INVALID for") && text.contains(reason.trim_end()), "no {reason:?} in:\n{text}");
    }
}

/// A `loadgen run` that lasts.
pub struct Generator {
    child: Child,
    folder: TempDir,
}

impl Generator {
    pub fn start(target: SocketAddr, flags: &str) -> Generator {
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new(LOADGEN.path())
            .args(["run", "--quiet", "--target", &target.to_string(), "--json"])
            .arg(folder.path().join("run.json"))
            .args(flags.split_whitespace())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("loadgen runs");
        Generator { child, folder }
    }

    pub fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }

    pub fn finish(self) -> Run {
        let output = self.child.wait_with_output().expect("its end");
        Run::of(&self.folder.path().join("run.json"), output)
    }
}

pub fn run(target: SocketAddr, flags: &str) -> Run {
    Generator::start(target, flags).finish()
}

/// The hidden server of `loadgen` with `flags`, once it says where it listens.
pub fn started<F: AsRef<OsStr>>(flags: impl IntoIterator<Item = F>) -> Forebay {
    Forebay::spawn(Command::new(LOADGEN.path()).arg("__serve").args(flags))
}

/// A socket of a server, with room for a flood.
pub fn bound() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    socket2::SockRef::from(&socket).set_recv_buffer_size(4 << 20).expect("a receive buffer");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// A server that does `act` with each datagram, until the tests are over.
pub fn serve(mut act: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static) -> SocketAddr {
    let (socket, address) = bound();
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((bytes, client)) = socket.recv_from(&mut buffer) {
            act(&socket, &buffer[..bytes], client);
        }
    });
    address
}

/// A server that answers every request.
pub fn honest() -> SocketAddr {
    serve(|socket, datagram, client| {
        reply(socket, datagram, client);
    })
}

/// A run with `flags` against a server that answers at once. It stops the generator for `pause`
/// whenever `at` says so of a request that it has just answered.
pub fn paused(flags: &str, pause: Nanos, mut at: impl FnMut(&Header) -> bool + Send + 'static) -> Run {
    let generator_id = Arc::new(AtomicI32::new(0));
    let id = Arc::clone(&generator_id);
    let server = serve(move |socket, datagram, client| {
        if at(&reply(socket, datagram, client)) {
            let id = Pid::from_raw(eventually("the generator is known", || {
                Some(id.load(Ordering::SeqCst)).filter(|id| *id > 0)
            }));
            kill(id, Signal::SIGSTOP).expect("a running process");
            std::thread::sleep(pause.into());
            kill(id, Signal::SIGCONT).expect("a stopped process");
        }
    });
    let generator = Generator::start(server, flags);
    generator_id.store(generator.id().as_raw(), Ordering::SeqCst);
    generator.finish()
}

/// Answers a request as it should be, if our kernel lets us; returns it.
pub fn reply(socket: &UdpSocket, datagram: &[u8], client: SocketAddr) -> Header {
    let request = Header::parse(datagram).expect("loadgen sends well-formed requests");
    // A client that has gone is no concern of the server's.
    let _ = socket.send_to(&Header { kind: Kind::Reply, ..request }.emit(), client);
    request
}

/// What `/proc` says of a process under `key`, such as `State:`.
pub fn status(id: Pid, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(text.lines().find_map(|line| line.strip_prefix(key))?.trim().to_owned())
}

/// The answer of `look` once it has one; a test that waits in vain fails.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = clock::now().plus(Nanos::from_secs(20));
    while clock::now() < deadline {
        if let Some(answer) = look() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("in 20 s it did not come true that {what}");
}
