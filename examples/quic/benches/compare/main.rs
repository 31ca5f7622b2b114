//! How long do requests on established connections take while others make handshakes, and how much
//! CPU time is used? Compared with quinn on tokio. Method: both servers have the same certificate,
//! limits and CPU, and take turns. The client asks by a schedule, whether or not answers come, and
//! counts from the scheduled time. `cargo bench -p forebay-quic --bench compare` prints one turn of
//! each server. Words after `--` choose servers, keys (`p256`), and handshakes per second (`300`),
//! or are settings of ours (`io=gro`). `turns=5` repeats all of it, `bulk=0` leaves out the bulk.
//! With `cpus=0-1` the server uses the client's CPU too. `forged`, `one-shard`, `half-open` and
//! `replayed` add 20,000 hostile datagrams a second.

#![allow(dead_code, reason = "the tests use more of what both have")]

#[path = "../../../dns/benches/compare/cpu.rs"]
mod cpu;
mod hostile;
mod rival;
#[path = "../../tests/it/support.rs"]
mod support;

use forebay::inside::runtime::step_back;
use forebay::output::print;
use forebay::time::{Nanos, clock};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use support::{Server, ask, request, run};
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

/// What makes a certificate with a key that signs in a tenth of the time.
const P256: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

/// Established connections, each with a socket of its own.
const CONNECTIONS: usize = 100;

/// How often each of them asks.
const PERIOD: Duration = Duration::from_millis(50);

/// How often it asks in a turn.
const QUESTIONS: usize = 160;

/// Handshakes per second in a turn.
const HANDSHAKES: [u32; 3] = [0, 100, 300];

/// Bytes that one connection sends, and bytes that it receives.
const BULK: u32 = 64_000_000;

/// The servers: quinn with one and two threads, and with handshakes on a thread of the lowest
/// priority; and s2n-quic with its TLS on one.
const SERVERS: [&str; 5] = ["forebay", "quinn", "quinn-2", "quinn-aside", "s2n"];

/// A client that uses more of its CPU than this may be what is slow.
const CLIENT_CPU_MAX: f64 = 0.85;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    if let [word, name, ..] = &words[..]
        && word == rival::WORD
    {
        return rival::serve(name);
    }
    let (settings, words): (Vec<_>, Vec<_>) = words.iter().map(String::as_str).partition(|word| word.contains('='));
    let (own, settings): (Vec<_>, Vec<_>) =
        settings.into_iter().partition(|word| ["turns=", "bulk=", "cpus="].iter().any(|own| word.starts_with(own)));
    let text = |name: &str| own.iter().find_map(|word| word.strip_prefix(name));
    let number = |name: &str| text(name)?.parse::<usize>().ok();
    let settings: Vec<_> = settings.into_iter().map(|setting| format!("--{setting}")).collect();
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let rates: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let rates = if rates.is_empty() { HANDSHAKES.to_vec() } else { rates };
    let key = if words.contains(&"p256") { P256 } else { support::RSA };
    let flood = hostile::KINDS.into_iter().find(|kind| words.contains(kind));
    let names = || SERVERS.into_iter().filter(|name| words.contains(name));
    let names: Vec<_> = if names().next().is_none() { SERVERS.to_vec() } else { names().collect() };
    let on_its_cpus = |program: &std::ffi::OsStr| {
        let mut command = Command::new("taskset");
        command.args(["-c", text("cpus=").unwrap_or("0")]).arg(program);
        command
    };
    let program = std::env::current_exe()?;
    let mut second = nix::sched::CpuSet::new();
    second.set(1)?;
    nix::sched::sched_setaffinity(nix::unistd::Pid::this(), &second)?;
    print(&format!("key {}; us: p50, p99, p99.9 of established connections; p50, p99 of handshakes\n\n", key[1]))?;
    for _ in 0..number("turns=").unwrap_or(1) {
        for (handshakes, name) in rates.iter().flat_map(|rate| names.iter().map(move |name| (*rate, *name))) {
            let server = if name == "forebay" {
                Server::start_as(on_its_cpus(env!("CARGO_BIN_EXE_forebay-quic").as_ref()), &settings, key)
            } else {
                let mut command = on_its_cpus(program.as_os_str());
                command.args([rival::WORD, name]);
                Server::start_as(command, &[], key)
            };
            let Some(server) = server else { return Ok(()) };
            print(&turn(name, &server, handshakes, number("bulk=") != Some(0), flood))?;
        }
    }
    Ok(())
}

/// One turn of a server.
fn turn(name: &str, server: &Server, handshakes: u32, with_bulk: bool, flood: Option<&str>) -> String {
    let mut line = String::new();
    let (begin, begun) = channel();
    thread::scope(|scope| {
        let shaking = scope.spawn(move || shake(server, &begun, handshakes));
        // A thread of its own, because the next server would inherit the priority.
        scope.spawn(|| run(async {
            let mut clients = Vec::new();
            for _ in 0..CONNECTIONS {
                let client = server.client();
                clients.push((server.connect(&client).await, client));
            }
            let memory = resident(server);
            let hostile = match flood {
                Some(kind) => Some(hostile::Hostile::begin(kind, server).await),
                None => None,
            };
            hurry();
            let (used, began) = (used_by(server), clock::now());
            begin.send(began).expect("the other thread waits for it");
            let count = CONNECTIONS as u32;
            let mut due = schedule(began, (0..count * QUESTIONS as u32).map(move |n| PERIOD * n / count));
            let (mut asking, mut of) = (JoinSet::new(), clients.iter().cycle());
            while let Some((intended, (connection, _))) = due.recv().await.zip(of.next()) {
                let connection = connection.clone();
                asking.spawn(async move {
                    let answered = tokio::time::timeout(support::PATIENCE, ask(&connection, &request(100, 0))).await;
                    let is_answered = answered.is_ok_and(|answer| answer.is_ok());
                    if is_answered { clock::now().minus(intended) } else { Nanos::MAX }
                });
            }
            let times = asking.join_all().await;
            let (asked, lost) = (times.len(), times.iter().filter(|time| **time == Nanos::MAX).count());
            let passed = clock::now().minus(began);
            let share = |part: usize| (used_by(server)[part] - used[part]) as f64 / passed.get() as f64;
            let (cpu, own) = (share(0), share(1));
            let shaken = shaking.join().expect("it does not panic");
            let count = shaken.len();
            drop(hostile);
            let memory = resident(server).saturating_sub(memory) / 1024;
            let [p50, p99, p999] = quantiles(times, [0.5, 0.99, 0.999]);
            let [h50, h99] = quantiles(shaken, [0.5, 0.99]);
            let bulk = if with_bulk { bulk(server, &clients[0].0).await } else { String::new() };
            let verdict = if own > CLIENT_CPU_MAX { "INVALID: the client is slow; " } else { "" };
            line = format!(
                "{name}, {handshakes}/s: {verdict}{lost} of {asked} lost, {p50} {p99} {p999}; {count} handshakes {h50} {h99}; \
                 CPU {cpu:.3}, client {own:.2}; {memory} MiB more; {bulk}\n",
            );
        }));
    });
    line
}

/// Makes handshakes from the time on that `begun` tells. Returns how long they took. The thread has
/// the lowest priority: so a handshake does not delay the questions in the client.
fn shake(server: &Server, begun: &Receiver<Nanos>, handshakes: u32) -> Vec<Nanos> {
    let _ = step_back();
    let mut shaken = Vec::new();
    run(async {
        let Ok(began) = begun.recv() else { return };
        let count = handshakes * (PERIOD * QUESTIONS as u32).as_millis() as u32 / 1_000;
        let mut due = schedule(began, (0..count).map(move |n| Duration::from_secs(1) * n / handshakes));
        let (mut shaking, client) = (JoinSet::new(), server.client());
        while let Some(intended) = due.recv().await {
            let connecting = client.connect(server.address, "localhost").expect("a local address");
            shaking.spawn(async move {
                let connection = tokio::time::timeout(support::PATIENCE, connecting).await.ok()?.ok()?;
                Some((clock::now().minus(intended), connection.close(0_u32.into(), b"")).0)
            });
        }
        shaken = shaking.join_all().await.into_iter().flatten().collect();
    });
    shaken
}

/// Gives this thread and those that it starts real-time priority, as far as the system allows.
/// Otherwise the client would measure how long it waits for its own handshakes.
fn hurry() {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo);
}

/// Sends each time after `began` when it has come. A thread does this: the runtime's own timers may
/// be a millisecond late.
fn schedule(began: Nanos, all: impl Iterator<Item = Duration> + Send + 'static) -> UnboundedReceiver<Nanos> {
    let (sender, receiver) = unbounded_channel();
    thread::spawn(move || {
        hurry();
        for after in all {
            let intended = began.plus(after.into());
            thread::sleep(intended.minus(clock::now()).into());
            if sender.send(intended).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The memory of the server, in KiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    line.and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// The CPU time of the server and of this client, in nanoseconds.
fn used_by(server: &Server) -> [u64; 2] {
    let used = cpu::of_tree(server.process.id());
    [used, cpu::of_tree(std::process::id()) - used]
}

/// How fast one connection sends and receives, in MB/s, and the server's CPU time for it.
async fn bulk(server: &Server, connection: &quinn::Connection) -> String {
    let upload = [b"u", &vec![0; BULK as usize][..]].concat();
    let mut line = String::new();
    for (name, question) in [("up", upload), ("down", request(BULK, 0))] {
        let (used, began) = (cpu::of_tree(server.process.id()), clock::now());
        ask(connection, &question).await.expect("an answer");
        let (passed, used) = (clock::now().minus(began), cpu::of_tree(server.process.id()) - used);
        let megabytes = f64::from(BULK) / 1e6;
        line += &format!(
            "{name} {:.0} MB/s, {:.2} ms of CPU for each MB; ",
            megabytes / passed.as_secs_f64(),
            used as f64 / 1e6 / megabytes
        );
    }
    line
}

/// The quantiles of `times` in microseconds.
fn quantiles<const N: usize>(mut times: Vec<Nanos>, quantiles: [f64; N]) -> [u64; N] {
    times.sort_unstable();
    quantiles.map(|quantile| {
        let rank = (times.len() as f64 * quantile) as usize;
        times.get(rank).map_or(0, |time| time.get() / 1_000)
    })
}
