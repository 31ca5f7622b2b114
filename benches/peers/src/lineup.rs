//! The list of peers, with the techniques that each uses.

use crate::mix::{Mix, OVERHEADS, Place};
use crate::peer::{BARE, Peer, Program};
use anyhow::Result;

/// The peers of the echo test: on one CPU, with one thread that serves.
pub(crate) fn echoing() -> Vec<Peer> {
    let forebay = |name, uses, flags| forebay(name, uses, format!("--workers 1 --pin --handler echo {flags}"));
    let ours = |name, uses| ours(name, uses, format!("--shape {name} --threads 1 --work echo"));
    vec![
        ours(BARE, "batch"),
        forebay("forebay", "batch, spin, gather, GSO", "--policy steal"),
        forebay("forebay-trains", "batch, GRO, spin, gather, GSO", "--policy steal --io gro"),
        ours("tokio-task", ""),
        ours("tokio-loop", ""),
        ours("rayon", ""),
    ]
}

/// The peers that burn `mix`. On emulated cores all are charged the same prices.
///
/// # Errors
/// If the workload of the mix does not exist.
pub(crate) fn burning(place: Place, mix: &Mix) -> Result<Vec<Peer>> {
    let (cores, scale, spin) = match place {
        Place::Emulated(cores) => (usize::from(cores), mix.time_scale, ""),
        Place::Real(cores) => (usize::from(cores), 1, ", spin"),
    };
    let (forebay_burns, work) = match place {
        Place::Emulated(_) => {
            let overheads = OVERHEADS.text();
            (
                format!("--burn sleep --overheads {overheads} --time-scale {scale}"),
                format!("--work sleep --cores {cores} --overheads {overheads} --time-scale {scale}"),
            )
        }
        Place::Real(_) => ("--burn cpu --pin".to_owned(), "--work cpu".to_owned()),
    };
    // The mix decides the size of tokio-split: workers for the light share of the work, rounded up,
    // and threads for the heavy share.
    let front = ((cores as f64 * mix.light_share()?).ceil() as usize).clamp(1, (cores - 1).max(1));
    let back = (cores - front).max(1);
    let heavy_ns = (mix.heavy_us * 1e3) as u64 * scale / 2;
    let ours = |name, uses: &str, shape: &str, threads: usize, rest: String| {
        ours(name, uses, format!("--shape {shape} --threads {threads} {work} {rest}"))
    };
    let plain = |name| ours(name, "", name, cores, String::new());
    let quantum = |us: u64| format!("--quantum-ns {}", us * 1_000 * scale);
    let forebay_flags = format!("--policy auto --workers {cores} --classify none --handler spin {forebay_burns}");
    let split = format!("--blocking {back} --heavy-ns {heavy_ns}");
    let [yield_1, yield_10] = ["batch, spin, yield 1us", "batch, spin, yield 10us"];
    Ok(vec![
        plain(BARE),
        forebay("forebay", &format!("batch{spin}, yield 1us"), forebay_flags),
        plain("tokio-task"),
        plain("tokio-loop"),
        ours("tokio-split", "cost, sized", "tokio-blocking", front, split),
        ours("tokio-yield-1us", yield_1, "tokio-yield", cores, quantum(1)),
        ours("tokio-yield-10us", yield_10, "tokio-yield", cores, quantum(10)),
        plain("rayon"),
        ours("rayon-split", yield_10, "rayon-split", cores, quantum(10)),
    ])
}

/// Forebay with `arguments`. It serves all requests, however long they have waited, as its rivals
/// do.
fn forebay(name: &'static str, uses: &str, arguments: String) -> Peer {
    Peer::new(name, uses, Program::Forebay(arguments + " --max-wait off"))
}

fn ours(name: &'static str, uses: &str, arguments: String) -> Peer {
    Peer::new(name, uses, Program::Ours(arguments))
}
