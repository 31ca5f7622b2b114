//! How long do requests on established connections take while others make handshakes, and how much
//! CPU time is used? Compared with quinn on tokio. Method: both servers have the same certificate,
//! limits and CPU, and take turns. The client asks by a schedule, whether or not answers come, and
//! counts from the scheduled time. `cargo bench -p forebay-quic --bench compare` prints the table.
//! Words after `--` choose servers or are settings of ours: `-- forebay io=gro`.

#![allow(dead_code, reason = "the tests use more of what both have")]

#[path = "../../../dns/benches/compare/cpu.rs"]
mod cpu;
mod rival;
#[path = "../../tests/it/support.rs"]
mod support;

use forebay::output::print;
use forebay::time::{Nanos, clock};
use std::process::Command;
use std::time::Duration;
use support::{Server, ask, request, run};
use tokio::task::JoinSet;

/// Established connections, each with a socket of its own.
const CONNECTIONS: usize = 100;

/// How often each of them asks.
const PERIOD: Duration = Duration::from_millis(50);

/// How often it asks in a turn.
const QUESTIONS: usize = 160;

/// Handshakes per second in a turn.
const HANDSHAKES: [u32; 2] = [0, 100];

/// Bytes that one connection sends, and bytes that it receives.
const BULK: u32 = 64_000_000;

/// The servers.
const SERVERS: [&str; 2] = ["forebay", "quinn"];

fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--bench")).collect();
    if words.first().is_some_and(|word| word == rival::WORD) {
        return rival::serve();
    }
    let (settings, names): (Vec<_>, Vec<_>) = words.iter().map(String::as_str).partition(|word| word.contains('='));
    let settings: Vec<_> = settings.into_iter().map(|setting| format!("--{setting}")).collect();
    let settings: Vec<_> = settings.iter().map(String::as_str).collect();
    let chosen = |name: &str| names.is_empty() || names.contains(&name);
    let on = |cpu: &str, program: &std::ffi::OsStr| {
        let mut command = Command::new("taskset");
        command.args(["-c", cpu]).arg(program);
        command
    };
    let own = std::env::current_exe()?;
    let client = nix::unistd::Pid::this();
    let mut second = nix::sched::CpuSet::new();
    second.set(1)?;
    nix::sched::sched_setaffinity(client, &second)?;
    print("us: p50, p99 and p99.9 of established connections; p50 and p99 of handshakes\n")?;
    for handshakes in HANDSHAKES {
        for name in SERVERS.into_iter().filter(|name| chosen(name)) {
            let server = if name == "quinn" {
                let mut command = on("0", own.as_os_str());
                command.arg(rival::WORD);
                Server::start_as(command, &[])
            } else {
                Server::start_as(on("0", env!("CARGO_BIN_EXE_forebay-quic").as_ref()), &settings)
            };
            let Some(server) = server else { return Ok(()) };
            print(&turn(name, &server, handshakes))?;
        }
    }
    Ok(())
}

/// One turn of a server.
fn turn(name: &str, server: &Server, handshakes: u32) -> String {
    let mut line = String::new();
    run(async {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = server.client();
            clients.push((server.connect(&client).await, client));
        }
        let (used, began) = (cpu::of_tree(server.process.id()), clock::now());
        let mut tasks = JoinSet::new();
        for (number, (connection, _)) in clients.iter().enumerate() {
            let (connection, first) = (connection.clone(), PERIOD * number as u32 / CONNECTIONS as u32);
            tasks.spawn(async move {
                let mut times = Vec::new();
                for question in 0..QUESTIONS as u32 {
                    let intended = began.plus((first + PERIOD * question).into());
                    tokio::time::sleep(intended.minus(clock::now()).into()).await;
                    ask(&connection, &request(100, 0)).await.expect("an answer");
                    times.push(clock::now().minus(intended));
                }
                times
            });
        }
        let mut shaking = JoinSet::new();
        let client = server.client();
        for number in 0..handshakes * (PERIOD.as_millis() as u32 * QUESTIONS as u32) / 1_000 {
            let (client, address) = (client.clone(), server.address);
            let intended = began.plus((Duration::from_secs(1) * number / handshakes).into());
            shaking.spawn(async move {
                tokio::time::sleep(intended.minus(clock::now()).into()).await;
                let connected = client.connect(address, "localhost").expect("a local address").await;
                connected.ok().map(|connection| (clock::now().minus(intended), connection.close(0_u32.into(), b"")).0)
            });
        }
        let times: Vec<_> = tasks.join_all().await.concat();
        let asked = times.len();
        let passed = clock::now().minus(began);
        let cpu = Nanos::new(cpu::of_tree(server.process.id()) - used);
        let shaken: Vec<_> = shaking.join_all().await.into_iter().flatten().collect();
        let count = shaken.len();
        let [p50, p99, p999] = quantiles(times, [0.5, 0.99, 0.999]);
        let [h50, h99] = quantiles(shaken, [0.5, 0.99]);
        let bulk = bulk(server, &clients[0].0).await;
        line = format!(
            "{name}, {handshakes} handshakes/s: {p50} {p99} {p999}; {count} handshakes {h50} {h99}; CPU {:.3}, {:.1} us \
             for each of {asked}; {bulk}\n",
            cpu.as_secs_f64() / passed.as_secs_f64(),
            cpu.as_micros_f64() / asked as f64,
        );
    });
    line
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
