//! How much does a plain answer cost in this server, NSD, Knot and PowerDNS? How long does it take
//! while signatures are made, and how many signatures are made per second? Method: all servers have
//! the same zone and two workers. Ours has its defaults, except for the arguments in its name;
//! `peers.rs` has the settings of the others. They take turns, and one open-loop client asks over
//! UDP. `cargo bench -p forebay-dns --bench compare` prints the tables of the README. It takes some
//! minutes, and needs a machine that runs nothing else.

#![allow(dead_code, reason = "the tests use more of what both have")]

mod client;
#[path = "../../tests/it/peers.rs"]
mod peers;
#[path = "../../tests/it/support.rs"]
mod support;

use ::support::cpu;
use client::{Load, run};
use forebay::output::print;
use forebay::time::Nanos;
use std::net::SocketAddr;
use std::path::Path;
use support::{Process, Server, example_zone};

/// Rounds, in each of which every server has a turn.
const ROUNDS: usize = 5;

/// Plain questions per second for the measurement of their cost: at most half of what any server
/// can answer.
const COST_RATES: [f64; 3] = [5_000.0, 20_000.0, 60_000.0];

/// Plain questions per second while signatures are made.
const PLAIN_RATE: f64 = 2_000.0;

/// The CPUs that signatures use.
const SIGNING: f64 = 0.8;

const TURN: Nanos = Nanos::from_secs(3);

/// A server with a name for the tables.
struct Contender {
    name: String,
    address: SocketAddr,
    pid: u32,
    _server: Running,
}

enum Running {
    Ours(Box<Server>),
    Peer(Process),
}

/// The parts that can be chosen.
const PARTS: [&str; 4] = ["cost", "rsa2048", "ed25519", "signing"];

fn main() -> std::io::Result<()> {
    let peers = support::have(&["nsd", "knotd", "pdns_server", "pdnsutil"]);
    assert!(peers, "Debian: apt-get install nsd knot pdns-server pdns-backend-bind");
    // On a thread of its own, because the servers would inherit the priority.
    let prioritized = std::thread::spawn(client::prioritize).join().expect("no panic");
    print(&format!(
        "client {}\n\n",
        if prioritized { "with real-time priority" } else { "WITHOUT real-time priority" }
    ))?;
    // Words after `--` choose parts.
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let unknown = chosen.iter().find(|word| !PARTS.contains(&word.as_str()));
    assert!(unknown.is_none(), "there is no part {unknown:?}: choose from {PARTS:?}");
    let wants = |part: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == part);
    if wants("cost") {
        costs()?;
    }
    for (ours, peers) in [("rsa2048", "rsasha256"), ("ed25519", "ed25519")] {
        if wants(ours) {
            latencies(ours, peers)?;
        }
        if wants("signing") {
            signing(ours, peers)?;
        }
    }
    Ok(())
}

/// The table of CPU time for each plain answer, and of the median latency.
fn costs() -> std::io::Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let (dir, zones) = (dir.path(), peers::example());
    let (nsd, knot, powerdns) = (peers::nsd(dir, &zones), peers::knot(dir, &zones, None), peers::powerdns(dir, None));
    let contenders =
        [ours(&[]), ours(&["--set", "wait=park"]), peer("Knot", knot), peer("NSD", nsd), peer("PowerDNS", powerdns)];
    // For each rate the costs and the medians; at full rate the costs and the answers per second.
    let mut measured = contenders.each_ref().map(|_| <[[Vec<f64>; 2]; COST_RATES.len() + 1]>::default());
    let mut lost = contenders.each_ref().map(|_| 0);
    for _ in 0..ROUNDS {
        for ((contender, columns), lost) in contenders.iter().zip(&mut measured).zip(&mut lost) {
            let (of_rates, full) = columns.split_at_mut(COST_RATES.len());
            for ([costs, medians], rate) in of_rates.iter_mut().zip(COST_RATES) {
                let before = cpu::of_tree(contender.pid);
                let mut outcome = run(contender.address, &[Load::plain(rate)], TURN).remove(0);
                costs.push(cpu_us_since(before, contender) / outcome.answered as f64);
                medians.push(outcome.percentile(0.5));
                *lost += outcome.sent - outcome.answered;
            }
            let (rate, cost) = flooded(contender, Load::plain(0.0));
            full[0][0].push(cost);
            full[0][1].push(rate);
        }
    }
    print(&format!("Plain answers, us of CPU for each, and p50 in us: median (least to most) of {ROUNDS} rounds\n\n"))?;
    let rates = COST_RATES.map(|rate| format!("CPU at {rate:.0}/s | p50")).join(" | ");
    print(&format!("| server | {rates} | CPU at full rate | answers/s | unanswered |\n|---|{}\n", "---|".repeat(9)))?;
    for ((contender, columns), lost) in contenders.iter().zip(measured).zip(lost) {
        let digits = [1, 0, 1, 0, 1, 0, 2, 0];
        let cells = columns.into_iter().flatten().zip(digits).map(|(values, digits)| spread(values, digits));
        let cells = cells.collect::<Vec<_>>().join(" | ");
        print(&format!("| {} | {cells} | {lost} |\n", contender.name))?;
    }
    print("\n")
}

/// The CPU time in us that a server has used since it had used `before` nanoseconds.
fn cpu_us_since(before: u64, contender: &Contender) -> f64 {
    cpu::of_tree(contender.pid).saturating_sub(before) as f64 / 1e3
}

/// The most questions of this kind that a server answers per second, and the CPU time of each in
/// us.
fn flooded(contender: &Contender, load: Load) -> (f64, f64) {
    let before = cpu::of_tree(contender.pid);
    let answered = client::flood(contender.address, load, TURN) as f64;
    (answered / TURN.as_secs_f64(), cpu_us_since(before, contender) / answered)
}

/// The median, the smallest and the largest value, with this many digits after the point.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let [median, least, most] = [values[values.len() / 2], values[0], values[values.len() - 1]];
    format!("{median:.digits$} ({least:.digits$} to {most:.digits$})")
}

/// The table of latencies of plain answers while signatures are made.
fn latencies(algorithm: &str, of_peers: &str) -> std::io::Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let contenders = signers(dir.path(), algorithm, of_peers);
    // The rate of signed questions follows from the CPU time of a signature on each server. It is
    // measured at full rate, because at lower rates servers that spin also use CPU time for
    // waiting.
    let rates = contenders.each_ref().map(|contender| SIGNING * 1e6 / flooded(contender, Load::signed(0.0)).1);
    let mut results = contenders.each_ref().map(|_| (<[Vec<f64>; 5]>::default(), 0));
    for _ in 0..ROUNDS {
        for ((contender, rate), (columns, lost)) in contenders.iter().zip(rates).zip(&mut results) {
            let before = cpu::of_tree(contender.pid);
            let mut outcomes = run(contender.address, &[Load::plain(PLAIN_RATE), Load::signed(rate)], TURN);
            let cpus = cpu::of_tree(contender.pid).saturating_sub(before) as f64 / TURN.get() as f64;
            *lost += outcomes[0].sent - outcomes[0].answered;
            let [p50, p99, p99_9] = [0.5, 0.99, 0.999].map(|quantile| outcomes[0].percentile(quantile));
            let values = [p50, p99, p99_9, outcomes[1].percentile(0.99), cpus];
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        }
    }
    print(&format!(
        "Plain answers at {PLAIN_RATE:.0}/s while {algorithm} signatures take {SIGNING} CPUs, us: median (least to most) of \
         {ROUNDS} rounds\n\n"
    ))?;
    print(
        "| server | plain p50 | p99 | p99.9 | unanswered | signed/s | signed p99 | CPUs |\n|---|---|---|---|---|---|---|---|\n",
    )?;
    for ((contender, rate), (columns, lost)) in contenders.iter().zip(rates).zip(results) {
        let [p50, p99, p99_9, signed, cpus] = columns;
        let [p50, p99, p99_9, signed] = [p50, p99, p99_9, signed].map(|values| spread(values, 0));
        let cpus = spread(cpus, 2);
        print(&format!("| {} | {p50} | {p99} | {p99_9} | {lost} | {rate:.0} | {signed} | {cpus} |\n", contender.name))?;
    }
    print("\n")
}

/// The table of signed answers per second. Each answer needs a new signature, and the client asks
/// as fast as the server answers.
fn signing(algorithm: &str, of_peers: &str) -> std::io::Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let contenders = signers(dir.path(), algorithm, of_peers);
    let mut results = contenders.each_ref().map(|_| <[Vec<f64>; 3]>::default());
    for _ in 0..ROUNDS {
        let turns = contenders.each_ref().map(|contender| flooded(contender, Load::signed(0.0)));
        // The ratio is within one round, because the speed of the machine differs between rounds.
        let isolated = turns[ISOLATED].0;
        for (columns, (rate, cost)) in results.iter_mut().zip(turns) {
            columns.iter_mut().zip([rate, rate / isolated, cost]).for_each(|(column, value)| column.push(value));
        }
    }
    print(&format!(
        "As many answers with a new {algorithm} signature as there are: median (least to most) of {ROUNDS} rounds\n\n"
    ))?;
    print("| server | signed answers/s | of isolated | us of CPU for each |\n|---|---|---|---|\n")?;
    for (contender, [rate, share, cost]) in contenders.iter().zip(results) {
        let (rate, share, cost) = (spread(rate, 0), spread(share, 2), spread(cost, 1));
        print(&format!("| {} | {rate} | {share} | {cost} |\n", contender.name))?;
    }
    print("\n")
}

/// The index of the policy `isolated` in [`signers`].
const ISOLATED: usize = 3;

/// The servers that sign on demand. `algorithm` is our name of the algorithm, `of_peers` the name
/// of the others.
fn signers(dir: &Path, algorithm: &str, of_peers: &str) -> [Contender; 6] {
    let signed = |arguments: &[&str]| ours(&[&["--sign", algorithm], arguments].concat());
    [
        signed(&[]),
        signed(&["--policy", "pools", "--set", "pools=front=1,heavy=1"]),
        signed(&["--policy", "steal"]),
        signed(&["--policy", "isolated"]),
        peer("Knot, mod-onlinesign", peers::knot(dir, &peers::example(), Some(of_peers))),
        peer("PowerDNS, NSEC3 narrow", peers::powerdns(dir, Some(of_peers))),
    ]
}

/// Our server with these arguments, which are also its name.
fn ours(arguments: &[&str]) -> Contender {
    let server = Server::start(&example_zone(), arguments);
    let (address, pid) = (server.address, server.process.0.id());
    let name = ["forebay-dns"].iter().chain(arguments).copied().collect::<Vec<_>>().join(" ");
    Contender { name, address, pid, _server: Running::Ours(Box::new(server)) }
}

fn peer(name: &str, (process, address): (Process, SocketAddr)) -> Contender {
    let pid = process.0.id();
    Contender { name: name.to_owned(), address, pid, _server: Running::Peer(process) }
}
