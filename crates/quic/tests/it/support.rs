//! The program under test, its certificate, and quinn's client.

use forebay_quic::echo::PROTOCOL;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
pub(crate) use quic_client::{
    Groups, ONE_DATAGRAM, PATIENCE, RSA, TWO_DATAGRAMS, client_config, client_of, config_of, patient, run,
    with_certificate,
};
use quinn::{Connection, Endpoint};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The time between two checks for it.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The README. Tests run its commands.
pub(crate) const PAGE: &str = include_str!("../../README.md");

/// A running server.
pub(crate) struct Server {
    pub(crate) process: Child,
    /// Where it speaks QUIC: its last address.
    pub(crate) address: SocketAddr,
    pub(crate) first_address: SocketAddr,
    admin: String,
    output: BufReader<ChildStdout>,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts the program with two workers, further arguments, and a certificate made by the
    /// README's command. Returns `None` without `openssl`; the test is then skipped.
    pub(crate) fn start(arguments: &[&str]) -> Option<Server> {
        let workers = ["--workers", "2"];
        Server::start_as(Command::new(env!("CARGO_BIN_EXE_forebay-quic")), &[&workers, arguments].concat(), RSA)
    }

    /// The same with another program, which prints its address in the same form.
    pub(crate) fn start_as(mut command: Command, arguments: &[&str], key: &[&str]) -> Option<Server> {
        let dir = with_certificate(PAGE, key)?;
        let log = fs::File::create(dir.path().join("log")).expect("a file");
        let listen: &[&str] = if arguments.contains(&"--listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        command.args(["--cert", "cert.pem", "--key", "key.pem"]).args(listen).args(arguments);
        command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().expect("the program starts");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("text");
        let log = || fs::read_to_string(dir.path().join("log")).expect("text");
        let said = line.strip_prefix("listening on udp ").unwrap_or_else(|| panic!("it says {line:?}: {}", log()));
        let (udp, admin) = said.trim_end().split_once(", admin http://").expect("addresses");
        let addresses: Vec<SocketAddr> = udp.split(',').map(|udp| udp.parse().expect("an address")).collect();
        let (first_address, address) = (addresses[0], addresses[addresses.len() - 1]);
        Some(Server { process, address, first_address, admin: admin.to_owned(), output, dir })
    }

    /// A client's endpoint that trusts the server's certificate.
    pub(crate) fn client(&self) -> Endpoint {
        self.client_of(TWO_DATAGRAMS)
    }

    /// A client's endpoint as of [`Server::client`], with these ways to agree on keys.
    pub(crate) fn client_of(&self, groups: Groups) -> Endpoint {
        client_of(self.client_config(groups))
    }

    /// A client's endpoint at another address of this machine.
    pub(crate) fn client_at(&self, address: IpAddr) -> Endpoint {
        let mut endpoint = Endpoint::client((address, 0).into()).expect("a free port");
        endpoint.set_default_client_config(self.client_config(ONE_DATAGRAM));
        endpoint
    }

    /// A client's endpoint whose certificate is the server's.
    pub(crate) fn certified_client(&self) -> Endpoint {
        client_of(config_of(self.dir.path(), ONE_DATAGRAM, PROTOCOL, |tls| {
            let [cert, key] = ["cert.pem", "key.pem"].map(|name| self.dir.path().join(name));
            let chain = vec![CertificateDer::from_pem_file(cert).expect("a certificate")];
            tls.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).expect("a key")).expect("they fit")
        }))
    }

    /// A client's endpoint that resumes its sessions.
    pub(crate) fn resuming_client(&self) -> Endpoint {
        client_of(config_of(self.dir.path(), ONE_DATAGRAM, PROTOCOL, |tls| tls.with_no_client_auth()))
    }

    /// The settings of such a client.
    pub(crate) fn client_config(&self, groups: Groups) -> quinn::ClientConfig {
        client_config(self.dir.path(), groups, PROTOCOL)
    }

    /// A connection of `client`.
    pub(crate) async fn connect(&self, client: &Endpoint) -> Connection {
        let connecting = client.connect(self.address, "localhost").expect("a local address");
        patient(connecting).await.expect("a handshake")
    }

    /// The value of a metric.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{name}: {page}")).parse().expect("a number")
    }

    /// The number of datagrams that ended as `fate`, for any reason.
    pub(crate) fn ended_as(&self, fate: &str) -> f64 {
        sum_in(&self.metrics(), &format!("forebay_datagrams_total{{fate=\"{fate}\""))
    }

    fn metrics(&self) -> String {
        self.page("/metrics")
    }

    /// A page of the admin endpoint.
    pub(crate) fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).expect("the admin endpoint");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("text");
        answer.split_once("\r\n\r\n").expect("a header").1.to_owned()
    }

    /// Waits until the metric has this value.
    pub(crate) async fn await_metric(&self, name: &str, value: f64) {
        let is_so = eventually(|| (self.metric(name) - value).abs() < 0.5).await;
        assert!(is_so, "{name} is {}, not {value}", self.metric(name));
    }

    /// Waits until so many datagrams have ended as `fate`.
    pub(crate) async fn await_ended(&self, fate: &str, count: f64) {
        let is_so = eventually(|| (self.ended_as(fate) - count).abs() < 0.5).await;
        assert!(is_so, "{} ended as {fate}, not {count}", self.ended_as(fate));
    }

    /// Waits until shards have begun so many requests, and everything that was received has ended.
    pub(crate) async fn await_begun(&self, count: usize) {
        self.await_metric("forebay_shard_events_total{kind=\"begun\"}", count as f64).await;
        let have_ended = || {
            // Of one page: what comes later may end before what came earlier.
            let page = self.metrics();
            let sum = |begin| sum_in(&page, begin);
            sum("forebay_datagrams_total{") >= sum("forebay_datagrams_received_total ")
        };
        assert!(eventually(have_ended).await, "some have not ended");
    }

    /// The CPU time of the threads whose names begin with `prefix`.
    pub(crate) fn cpu_of(&self, prefix: &str) -> Duration {
        let times = self.files_of(prefix, "schedstat").into_iter();
        Duration::from_nanos(times.filter_map(|stat| stat.split(' ').next()?.parse::<u64>().ok()).sum())
    }

    /// The fields of `/proc/PID/stat` of these threads. No name has spaces.
    pub(crate) fn stat_of(&self, prefix: &str) -> Vec<Vec<String>> {
        let stats = self.files_of(prefix, "stat").into_iter();
        stats.map(|stat| stat.split(' ').map(str::to_owned).collect()).collect()
    }

    /// The file of each of these threads.
    fn files_of(&self, prefix: &str, file: &str) -> Vec<String> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.id())).expect("it runs");
        let paths = tasks.map(|task| task.expect("a thread").path());
        let is_named =
            |path: &PathBuf| fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with(prefix));
        paths.filter(is_named).filter_map(|path| fs::read_to_string(path.join(file)).ok()).collect()
    }

    /// Asks the program to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::SIGTERM);
    }

    /// Asks the program to read its settings and its certificate again.
    pub(crate) fn reload(&self) {
        self.signal(Signal::SIGHUP);
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).expect("it runs");
    }

    /// Waits until the log has this text.
    pub(crate) async fn await_log(&self, text: &str) {
        let log = || fs::read_to_string(self.dir.path().join("log")).expect("text");
        assert!(eventually(|| log().contains(text)).await, "no {text:?} in {}", log());
    }

    /// The last output of the program, which must end without an error.
    pub(crate) fn ended(mut self) -> String {
        let mut said = String::new();
        self.output.read_to_string(&mut said).expect("text");
        assert!(self.process.wait().expect("a child").success(), "{said}");
        said
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.dir.path().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Whether `holds` comes true in time.
async fn eventually(holds: impl Fn() -> bool) -> bool {
    for _ in 0..PATIENCE.as_millis() / LOOK_AGAIN.as_millis() {
        if holds() {
            return true;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    false
}

/// The answer to `question`, on a new stream.
pub(crate) async fn ask(connection: &Connection, question: &[u8]) -> Result<Vec<u8>, quinn::ReadToEndError> {
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    let question = question.to_vec();
    // Sends and receives at the same time, because an echo comes before its question has ended.
    let sending = tokio::spawn(async move {
        let _ = send.write_all(&question).await;
        let _ = send.finish();
        let _ = send.stopped().await;
    });
    let answer = patient(receive.read_to_end(1 << 26)).await;
    sending.abort();
    answer
}

/// Asks for `length` bytes, after `micros` of computing.
pub(crate) fn request(length: u32, micros: u32) -> Vec<u8> {
    [b"r", &length.to_be_bytes()[..], &micros.to_be_bytes()].concat()
}

/// The sum of all metrics of `page` whose names and labels begin so.
fn sum_in(page: &str, begin: &str) -> f64 {
    let values = page.lines().filter(|line| line.starts_with(begin)).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().expect("a number")).sum()
}
