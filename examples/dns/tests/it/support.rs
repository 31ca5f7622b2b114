//! The program under test and the tools that ask it, as child processes.

use ::support::skip::skip;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// The longest wait for an expected event: a busy machine is slow, but a test must end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The time between two checks for it.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The zone of the README's first steps.
pub(crate) fn example_zone() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("example.zone")
}

/// A process that is ended when its test ends.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Process,
    /// The address to ask; one of `addresses`.
    pub(crate) address: SocketAddr,
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where it answers over QUIC.
    pub(crate) quic: Option<SocketAddr>,
    /// The address of its metrics.
    pub(crate) admin: SocketAddr,
    /// Its output before it served.
    pub(crate) said: Vec<String>,
    pub(crate) output: BufReader<ChildStdout>,
    log: PathBuf,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts the program with a zone's file and further arguments, on a free port.
    pub(crate) fn start(file: &Path, arguments: &[&str]) -> Server {
        Server::start_on(&["127.0.0.1"], file, arguments)
    }

    /// The same, on one free port of each of these hosts.
    pub(crate) fn start_on(hosts: &[&str], file: &Path, arguments: &[&str]) -> Server {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("log");
        let zone = format!("example.test={}", file.display());
        // Another program may take the port after the check, so it tries again.
        for _ in 0..10 {
            let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-dns"));
            let port = free_port();
            let listen: Vec<String> = hosts.iter().map(|host| format!("{host}:{port}")).collect();
            command.args(["--zone", &zone, "--listen", &listen.join(","), "--set", "workers=2"]);
            command.args(arguments).stdout(Stdio::piped()).stderr(fs::File::create(&log).expect("a file"));
            let mut process = Process(command.spawn().expect("the program starts"));
            let mut output = BufReader::new(process.0.stdout.take().expect("it is piped"));
            let mut said = Vec::new();
            loop {
                let mut line = String::new();
                if output.read_line(&mut line).expect("text") == 0 {
                    let log = fs::read_to_string(&log).expect("text");
                    assert!(log.contains("in use"), "it ended: {log}");
                    break;
                }
                if let Some(rest) = line.strip_prefix("listening on udp and tcp ") {
                    let (udp, admin) = rest.trim_end().split_once(", admin http://").expect("addresses");
                    let parsed = |address: &str| address.parse().expect("an address");
                    let (udp, quic) = udp.split_once(", quic ").map_or((udp, None), |(udp, quic)| (udp, Some(quic)));
                    let addresses: Vec<SocketAddr> = udp.split(',').map(parsed).collect();
                    let (address, admin, quic) = (addresses[0], parsed(admin), quic.map(parsed));
                    return Server { process, address, addresses, quic, admin, said, output, log, _dir: dir };
                }
                said.push(line.trim_end().to_owned());
            }
        }
        panic!("no port is free");
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("text")
    }

    /// The value of the metric whose line begins so.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut page = String::new();
        let mut endpoint = TcpStream::connect(self.admin).expect("connected");
        endpoint.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("sent");
        endpoint.read_to_string(&mut page).expect("text");
        let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {page}"));
        line.rsplit(' ').next().expect("a value").parse().expect("a number")
    }

    /// A socket that sends to the server.
    pub(crate) fn socket(&self) -> UdpSocket {
        let own = if self.address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { IpAddr::from(Ipv6Addr::LOCALHOST) };
        let socket = UdpSocket::bind((own, 0)).expect("a free port");
        socket.connect(self.address).expect("a local address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout above zero");
        socket
    }
}

/// A port that is free for UDP and TCP, and remains free until a server opens it. The system takes
/// ports of clients from 32768 on (`net.ipv4.ip_local_port_range`), and each call returns another
/// port. Some servers make keys for seconds before they open their port.
pub(crate) fn free_port() -> u16 {
    const FIRST: u32 = 12_000;
    const COUNT: u32 = 20_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // Ordering: relaxed. Each call only needs its own number. Processes begin at different
        // numbers.
        let place = std::process::id().wrapping_mul(97).wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(FIRST + place % COUNT).expect("below 32768");
        let address = (Ipv4Addr::LOCALHOST, port);
        if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
            return port;
        }
    }
}

/// Waits until `holds`.
pub(crate) fn await_until(mut holds: impl FnMut() -> bool, otherwise: &str) {
    for _ in 0..PATIENCE.as_millis() / LOOK_AGAIN.as_millis() {
        if holds() {
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
    panic!("{otherwise}");
}

/// Whether all these programs exist. If not, the test is skipped.
pub(crate) fn have(tools: &[&str]) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    // Servers are in folders that are often not in a user's path.
    let places: Vec<&str> = path.split(':').chain(["/usr/sbin", "/usr/local/sbin"]).collect();
    let missing: Vec<_> =
        tools.iter().filter(|tool| !places.iter().any(|place| Path::new(place).join(tool).exists())).collect();
    if !missing.is_empty() {
        let packages = "knot-dnsutils bind9-dnsutils nsd knot pdns-server pdns-backend-bind";
        skip(format_args!("these programs are missing: {missing:?} (Debian: {packages})"));
    }
    missing.is_empty()
}

/// The standard output of a program, which must succeed. It reads no settings of this user, such as
/// `~/.digrc`.
pub(crate) fn output(command: &mut Command) -> String {
    let output = command.env("PATH", path()).env("HOME", "/nonexistent").output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let program = command.get_program();
    assert!(output.status.success(), "{program:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// A tool that asks `server`.
pub(crate) fn asking(tool: &str, server: SocketAddr) -> Command {
    let mut command = Command::new(tool);
    command.args([&format!("@{}", server.ip()), "-p", &server.port().to_string()]);
    command
}

/// The output of one run of kdig for each question: headers, comments and answers.
pub(crate) fn kdig(server: SocketAddr, flags: &[&str], questions: &[(String, &str)]) -> Vec<String> {
    let mut command = asking("kdig", server);
    command.args(["+noall", "+comments", "+header", "+answer", "+timeout=10"]).args(flags);
    command.args(questions.iter().flat_map(|(name, rtype)| [name.as_str(), rtype]));
    let text = output(&mut command);
    let answers: Vec<_> = text.split(";; ->>HEADER<<- ").skip(1).map(str::to_owned).collect();
    assert_eq!(answers.len(), questions.len(), "{server} {flags:?}: {text}");
    answers
}

/// The search path, with the folders of servers.
pub(crate) fn path() -> String {
    format!("{}:/usr/sbin:/usr/local/sbin", std::env::var("PATH").unwrap_or_default())
}
