//! How long do requests on established connections take while others make handshakes, how many
//! handshakes end in time, and how much CPU time is used? Compared with quinn on tokio. Method:
//! both servers have the same certificate, limits and CPU, and take turns. The client asks by a
//! schedule, whether or not answers come, and counts from the scheduled time. `cargo bench -p
//! forebay-quic --bench compare` prints a table with one turn of each server. Words after `--`
//! choose servers, keys (`p256`), and handshakes per second (`300`), or are settings of ours
//! (`io=gro`).
//!
//! - `load=1,2,3`: handshakes per second, as multiples of what `quinn-aside` can do. This is
//!   measured first.
//! - `kem=1,0`: clients with ML-KEM, whose first message takes two datagrams, and without.
//! - `seconds=30`: the length of a turn. What begins in its first and last sixth is not counted.
//! - `connections=100`, `asks=2000`: established connections, and their requests per second.
//! - `heavy=100`: every hundredth request computes for 5 ms, and the others for 10 us. The column
//!   `heavy` has the median of the heavy ones, and the columns before it the light ones.
//! - `turns=5` repeats all of it, `bulk=0` leaves out the bulk, `cpus=0-1` lets the server use the
//!   client's CPU too.
//! - `forged`, `one-shard`, `half-open` and `replayed` add 20,000 hostile datagrams a second.

#![allow(dead_code, reason = "the tests use more of what both have")]

mod handler;
mod hostile;
mod rival;
#[path = "../../tests/it/support.rs"]
mod support;
mod turn;

use forebay::output::print;
use std::ffi::OsStr;
use std::process::{Command, ExitCode};
use std::time::Duration;
use support::{Groups, ONE_DATAGRAM, Server, TWO_DATAGRAMS};
use turn::{Asks, Load, Turn};

/// What makes a certificate with a key that signs in a tenth of the time.
const P256: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// Handshakes per second in a turn.
const HANDSHAKES: [f64; 3] = [0.0, 100.0, 300.0];

/// The length of a turn in seconds.
const SECONDS: u64 = 12;

/// Clients that make handshakes one after another, to measure how many a server can make.
const AT_ONCE: usize = 32;

/// The servers. With `forebay-handler` a [`forebay::Handler`] serves the streams, and there is no
/// bulk. A second thread, handshakes on a thread of the lowest priority, and computations that
/// yield are variants of quinn. The TLS of s2n-quic is on a thread of the lowest priority.
const SERVERS: [&str; 7] = ["forebay", HANDLER, "quinn", "quinn-2", RIVAL, "quinn-yields", "s2n"];

/// A handler behind both doors.
const HANDLER: &str = "forebay-handler";

/// The server by whose handshakes loads are counted.
const RIVAL: &str = "quinn-aside";

/// The words of the command line.
struct Words(Vec<String>);

impl Words {
    /// The words that choose, and not set.
    fn plain(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str).filter(|word| !word.contains('='))
    }

    /// The value of a setting of the bench.
    fn setting(&self, name: &str) -> Option<&str> {
        self.0.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The numbers of a setting, separated by commas.
    fn numbers(&self, name: &str) -> Option<Vec<f64>> {
        Some(self.setting(name)?.split(',').map(|number| number.parse().expect("a number")).collect())
    }

    /// The settings of ours.
    fn ours(&self) -> Vec<String> {
        let own = ["turns", "bulk", "cpus", "load", "kem", "seconds", "connections", "asks", "heavy"];
        let settings = self.0.iter().filter_map(|word| word.split_once('='));
        settings.filter(|(name, _)| !own.contains(name)).map(|(name, value)| format!("--{name}={value}")).collect()
    }

    fn key(&self) -> &'static [&'static str] {
        if self.plain().any(|word| word == "p256") { P256 } else { support::RSA }
    }

    /// Starts the server of this name on its CPU.
    fn start(&self, name: &str) -> Option<Server> {
        let on_its_cpus = |program: &OsStr| {
            let mut command = Command::new("taskset");
            command.args(["-c", self.setting("cpus").unwrap_or("0")]).arg(program);
            command
        };
        if name == "forebay" {
            let ours = self.ours();
            let ours: Vec<_> = ours.iter().map(String::as_str).collect();
            return Server::start_as(on_its_cpus(env!("CARGO_BIN_EXE_forebay-quic").as_ref()), &ours, self.key());
        }
        let mut command = on_its_cpus(std::env::current_exe().expect("this program").as_os_str());
        if name == HANDLER {
            command.env(handler::VARIABLE, "");
            let (ours, of_door) = (self.ours(), handler::SETTINGS);
            let all: Vec<_> = of_door.into_iter().chain(ours.iter().map(String::as_str)).collect();
            return Server::start_as(command, &all, self.key());
        }
        command.args([rival::WORD, name]);
        Server::start_as(command, &[], self.key())
    }
}

fn main() -> ExitCode {
    if std::env::var_os(handler::VARIABLE).is_some() {
        return handler::serve();
    }
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = print(&format!("{error}\n"));
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let words = Words(std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect());
    if let [word, name, ..] = &words.0[..]
        && word == rival::WORD
    {
        return rival::serve(name);
    }
    let flood = hostile::KINDS.into_iter().find(|kind| words.plain().any(|word| word == *kind));
    let names: Vec<_> = SERVERS.into_iter().filter(|name| words.plain().any(|word| word == *name)).collect();
    let names = if names.is_empty() { SERVERS.to_vec() } else { names };
    let seconds = words.numbers("seconds").map_or(SECONDS, |seconds| seconds[0] as u64);
    let (with_bulk, length) = (words.setting("bulk") != Some("0"), Duration::from_secs(seconds));
    let mut second = nix::sched::CpuSet::new();
    second.set(1)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::this(), &second)?;
    let kinds: Vec<(&str, Groups)> = words.numbers("kem").unwrap_or_else(|| vec![1.0]).into_iter().map(kind).collect();
    print(&format!("key {}; times in us, counted from the schedule\n{}\n", words.key()[1], turn::HEAD))?;
    let number = |name, default| words.numbers(name).map_or(default, |numbers| numbers[0]);
    let asks = Asks {
        connections: number("connections", 100.0) as u32,
        rate: number("asks", 2_000.0),
        heavy_every: number("heavy", 0.0) as u32,
    };
    let turns = words.numbers("turns").map_or(1, |turns| turns[0] as usize);
    for (kem, groups) in std::iter::repeat_n(kinds, turns).flatten() {
        let turn = |load, with_bulk, flood| Turn { asks, load, length, groups, with_bulk, flood };
        let rates: Vec<f64> = words.plain().filter_map(|word| word.parse().ok()).collect();
        let rates = match words.numbers("load") {
            Some(loads) => {
                let Some(server) = words.start(RIVAL) else { return Ok(()) };
                let capacity = turn(Load::AtOnce(AT_ONCE), false, None).run(&server).handshakes();
                print(&format!("{RIVAL} makes {capacity:.0} handshakes a second, ML-KEM {kem}\n"))?;
                loads.into_iter().map(|load| load * capacity).collect()
            }
            None if rates.is_empty() => HANDSHAKES.to_vec(),
            None => rates,
        };
        for (rate, name) in rates.iter().flat_map(|rate| names.iter().map(move |name| (*rate, *name))) {
            let Some(server) = words.start(name) else { return Ok(()) };
            let measured = turn(Load::PerSecond(rate), with_bulk && name != HANDLER, flood).run(&server);
            print(&format!("{}\n", measured.row(name, rate, kem)))?;
        }
    }
    Ok(())
}

/// Clients with ML-KEM, or without.
fn kind(kem: f64) -> (&'static str, Groups) {
    if kem > 0.0 { ("on", TWO_DATAGRAMS) } else { ("off", ONE_DATAGRAM) }
}
