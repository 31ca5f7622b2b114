//! The client of a server's admin endpoint: reads the server's description and its counters.

mod latency_body;

use crate::endpoint::latency_body::{check, whole};
use crate::failure::Failure;
use crate::text::escaped;
use anyhow::{Context, Result, anyhow};
use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::get;
use forebay::metrics::LATENCY_SCHEMAS;
use serde::Serialize;
use serde_json::Value;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// The timeout of a request. An admin endpoint answers within 100 ms under any load.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest text taken from a server; names of policies are shorter.
const TEXT_CHARS_MAX: usize = 100;

/// The HTTP address of a server's admin endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    authority: String,
}

/// The body of `GET /latency`, after a check of the keys that `loadgen` reads.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct ServerView {
    /// The body as received.
    pub(crate) body: Value,
}

impl Endpoint {
    /// The endpoint at `address`: `http://127.0.0.1:9001`, or only `127.0.0.1:9001`.
    ///
    /// # Errors
    /// A usage failure for another scheme or an address with a path.
    pub fn new(address: &str) -> Result<Endpoint, Failure> {
        let authority = address.strip_prefix("http://").unwrap_or(address).trim_end_matches('/');
        if authority.is_empty() || authority.contains('/') || !authority.contains(':') {
            return Err(Failure::usage(format!(
                "--admin {address} is no admin address: write http://HOST:PORT or HOST:PORT, like 127.0.0.1:9001"
            )));
        }
        Ok(Endpoint { authority: authority.to_owned() })
    }

    /// The address where the server of `view` receives requests, as seen from this host. If the
    /// server listens on a wildcard address, the host of its admin endpoint.
    ///
    /// # Errors
    /// A usage failure if the server gives no address, or gives its loopback address from another
    /// host.
    pub(crate) fn target(&self, view: &ServerView) -> Result<SocketAddr, Failure> {
        let remedy = "add --target HOST:PORT";
        let listen = view.listen().ok_or_else(|| {
            Failure::usage(format!("the server at --admin {} does not say where it receives: {remedy}", self.authority))
        })?;
        let admins = self.authority.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
        let admin = admins.iter().find(|admin| admin.is_ipv4() == listen.is_ipv4()).or(admins.first());
        if listen.ip().is_unspecified() {
            let host = admin.ok_or_else(|| Failure::usage(format!("--admin {} has no address", self.authority)))?;
            return Ok(SocketAddr::new(host.ip(), listen.port()));
        }
        if listen.ip().is_loopback() && !admins.iter().any(|admin| admin.ip().is_loopback()) {
            return Err(Failure::usage(format!(
                "the server at --admin {} receives at {listen}, on its own host only: {remedy}, if it can be reached",
                self.authority
            )));
        }
        Ok(listen)
    }

    /// Reads `/latency`.
    ///
    /// # Errors
    /// If there is no answer, or if a key that is read is missing or of another type.
    pub fn latency(&self) -> Result<ServerView> {
        let asking = || format!("asking the admin endpoint, http://{}/latency", self.authority);
        let (status, text) = get(&self.authority, "/latency", REQUEST_TIMEOUT).with_context(asking)?;
        if !status.is_success() {
            return Err(anyhow!("{status}: {}", escaped(text.trim_end()))).with_context(asking);
        }
        let body = serde_json::from_str(&text).with_context(asking)?;
        check(&body)
            .map_err(|wrong| anyhow!("the answer is no {}: {wrong}", LATENCY_SCHEMAS[0]))
            .with_context(asking)?;
        Ok(ServerView { body })
    }
}

impl ServerView {
    /// The name of the server's policy.
    pub(crate) fn policy(&self) -> Option<String> {
        self.text("/policy")
    }

    /// The server's `--burn`: `cpu` or `sleep`.
    pub(crate) fn burn(&self) -> Option<String> {
        self.text("/burn")
    }

    /// The number of the server's workers.
    pub(crate) fn workers(&self) -> Option<u16> {
        self.number("/workers").and_then(|workers| u16::try_from(workers).ok()).filter(|workers| *workers > 0)
    }

    /// The factor by which the server expects costs to be multiplied; `--time-scale` sets it.
    pub(crate) fn time_scale(&self) -> Option<u64> {
        self.number("/time_scale").filter(|scale| *scale > 0)
    }

    /// The costs of steps that the server charges its emulated cores; [`Overheads::NONE`] if cores
    /// are real or not charged.
    ///
    /// # Errors
    /// If the answer names unknown overheads.
    pub(crate) fn overheads(&self) -> Result<Overheads, String> {
        let Some(text) = self.body.get("overheads").and_then(Value::as_str) else { return Ok(Overheads::NONE) };
        // A file name would name a file of this host, which is not the server's.
        let parsed = text.parse().ok().filter(|_| !text.starts_with("file:") && text != "measured");
        parsed.ok_or_else(|| format!("--admin: the server's overheads are unknown here: {}", escaped(text)))
    }

    /// The policy that an adaptive policy has chosen, and its budget in microseconds of the
    /// server's time.
    pub(crate) fn decision(&self) -> (Option<&str>, Option<f64>) {
        let of = |key: &str| self.body.get("decision").and_then(|decision| decision.get(key));
        (of("policy").and_then(Value::as_str), of("budget_us").and_then(Value::as_f64))
    }

    /// When the server started, in seconds since the Unix epoch; `None` if it does not say.
    pub(crate) fn start_time_seconds(&self) -> Option<f64> {
        self.body.get("start_time_seconds")?.as_f64()
    }

    /// Datagrams that the server has received since its start.
    pub(crate) fn received(&self) -> u64 {
        self.number("/fates/received").unwrap_or(0)
    }

    /// Datagrams that the server has received and not yet ended.
    pub(crate) fn in_flight(&self) -> u64 {
        self.number("/fates/in_flight").unwrap_or(0)
    }

    /// Datagrams that the kernel dropped at the server's sockets since the server's start; `None`
    /// if the server cannot count them.
    pub(crate) fn kernel_dropped(&self) -> Option<u64> {
        self.number("/fates/kernel_dropped")
    }

    /// For emulated cores, since the server's start: microseconds that its workers should have
    /// slept, and microseconds that they slept too long.
    pub(crate) fn overslept(&self) -> Option<(f64, f64)> {
        let slept_us = self.body.pointer("/emulation/slept_us")?.as_f64()?;
        // If the cores never slept, the share in the body is `null`.
        if slept_us == 0.0 {
            return Some((0.0, 0.0));
        }
        Some((slept_us, slept_us * self.body.pointer("/emulation/overshoot_share")?.as_f64()?))
    }

    /// Microseconds that all workers together have waited for a CPU since the server's start.
    pub(crate) fn run_queue_wait_us(&self) -> Option<f64> {
        self.body.pointer("/run_queue_wait_us")?.as_f64()
    }

    /// Microseconds that all workers spent in handlers since the server's start. On emulated cores
    /// charged steps count too. `None` if the server does not say.
    pub fn busy_us(&self) -> Option<f64> {
        let charged = self.body.pointer("/emulation/charged_us").and_then(Value::as_f64).unwrap_or(0.0);
        Some(self.body.get("busy_us")?.as_f64()? + charged)
    }

    /// The address where the server receives requests; the first one of several.
    fn listen(&self) -> Option<SocketAddr> {
        self.body.pointer("/listen")?.as_str()?.split(',').next()?.parse().ok()
    }

    fn text(&self, pointer: &str) -> Option<String> {
        let text = self.body.pointer(pointer)?.as_str()?;
        Some(escaped(&text.chars().take(TEXT_CHARS_MAX).collect::<String>()))
    }

    fn number(&self, pointer: &str) -> Option<u64> {
        self.body.pointer(pointer).and_then(whole)
    }
}

/// The address that `flag` names; a usage failure if it names none.
pub(crate) fn resolve(flag: &str, target: &str) -> Result<SocketAddr, Failure> {
    let addresses = target.to_socket_addrs();
    let mut addresses = addresses.map_err(|error| {
        Failure::usage(format!("{flag} {target} is no address ({error}): write HOST:PORT, like 127.0.0.1:9000"))
    })?;
    addresses.next().ok_or_else(|| Failure::usage(format!("{flag} {target}: the name has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_and_without_scheme_are_the_same() {
        for address in ["127.0.0.1:9001", "http://127.0.0.1:9001", "http://127.0.0.1:9001/"] {
            let endpoint = Endpoint::new(address).unwrap_or_else(|error| panic!("{address}: {error}"));
            assert_eq!(endpoint.authority, "127.0.0.1:9001");
        }
        for address in ["", "9001", "https://127.0.0.1:9001", "127.0.0.1:9001/metrics"] {
            assert!(Endpoint::new(address).is_err(), "{address:?} was taken");
        }
    }

    // Is a server found at its own address, or at the host of its admin endpoint? If not, does the
    // error say why?
    #[test]
    fn the_target_is_where_the_server_says() {
        let target = |admin: &str, listen: &str| {
            let view = ServerView { body: serde_json::json!({"listen": listen}) };
            let found = Endpoint::new(admin).expect("an address").target(&view);
            found.map_or_else(|error| error.to_string(), |target| target.to_string())
        };
        assert_eq!(target("127.0.0.1:9001", "127.0.0.1:40000"), "127.0.0.1:40000");
        assert_eq!(target("http://127.0.0.2:9001", "0.0.0.0:40000"), "127.0.0.2:40000");
        assert_eq!(target("[::1]:9001", "[::]:40000"), "[::1]:40000");
        assert_eq!(target("127.0.0.1:9001", "[::]:40000"), "127.0.0.1:40000", "a wildcard of both families");
        assert_eq!(target("127.0.0.1:9001", "192.0.2.7:40000"), "192.0.2.7:40000");
        assert_eq!(target("127.0.0.1:9001", "127.0.0.3:1,[::1]:2"), "127.0.0.3:1", "of several the first");
        assert!(target("192.0.2.7:9001", "127.0.0.1:9000").contains("on its own host only: add --target"));
        assert!(target("127.0.0.1:9001", "\u{1b}[2J").contains("does not say where it receives: add --target"));
    }

    // Is a missing figure told apart from zero, and are overheads read as they were written?
    #[test]
    fn overheads_are_read_by_name() {
        let body = serde_json::json!({"fates": {"received": 90, "kernel_dropped": null}, "overheads": "lab"});
        let view = ServerView { body };
        assert_eq!((view.kernel_dropped(), view.overheads()), (None, Ok(Overheads::LAB)), "null is not 0");
        let of = |overheads: Value| ServerView { body: serde_json::json!({"overheads": overheads}) }.overheads();
        assert_eq!(of(Value::Null), Ok(Overheads::NONE));
        for unknown in ["", "free", "measured", "file:/etc/passwd", "send=1h\u{1b}[2J"] {
            assert!(of(unknown.into()).is_err_and(|error| error.contains("--admin") && !error.contains('\u{1b}')));
        }
    }

    // Is the request's host `localhost`? A server refuses requests with an unknown host name,
    // because another site's page may have sent them.
    #[test]
    fn a_server_is_asked_as_localhost() {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let asking = std::thread::spawn(move || Endpoint::new(&address).expect("an address").latency());
        let (mut stream, _) = listener.accept().expect("it asks");
        let (mut head, mut bytes) = (String::new(), [0; 1_024]);
        while !head.contains("\r\n\r\n") {
            let read = stream.read(&mut bytes).expect("a request");
            head += std::str::from_utf8(&bytes[..read]).expect("text");
        }
        stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").expect("it reads");
        assert!(asking.join().expect("no panic").is_err());
        let named: Vec<&str> = head.lines().filter(|line| line.to_lowercase().starts_with("host:")).collect();
        assert!(matches!(named[..], [name] if name.eq_ignore_ascii_case("host: localhost")), "{head}");
    }
}
