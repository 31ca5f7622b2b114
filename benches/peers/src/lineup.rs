//! The peers of each section, with the techniques that each uses.

use crate::mixes::{Emulated, OVERHEADS};
use crate::peer::{BARE, ISOLATED, Peer, Program};
use anyhow::Result;

/// Those that echo, on one CPU: one thread that serves each. `bare` is the first, because others are measured at half of
/// its throughput.
pub(crate) fn echoing() -> Vec<Peer> {
    let forebay =
        |name, uses, flags| forebay(name, uses, format!("--policy steal --workers 1 --pin --handler echo {flags}"));
    let ours = |name, uses| ours(name, uses, format!("--shape {name} --threads 1 --work echo"));
    vec![
        ours(BARE, "batch"),
        forebay("forebay", "batch, spin, gather, GSO", "--wait adaptive"),
        forebay("forebay-trains", "batch, GRO, spin, gather, GSO", "--wait adaptive --io gro"),
        ours("tokio-task", ""),
        ours("tokio-loop", ""),
        ours("rayon", ""),
        go("go-goroutine", "", String::new()),
        ours("bare-spin", "batch, spin always"),
        forebay("forebay-spin", "batch, spin always, gather, GSO", "--wait spin"),
        forebay("forebay-park", "batch, gather, GSO", "--wait park"),
    ]
}

/// Those that burn a mix on `cores` emulated cores, all at the same prices.
///
/// # Errors
/// If there is no such workload.
pub(crate) fn on_emulated_cores(cores: usize, emulated: &Emulated) -> Result<Vec<Peer>> {
    let Emulated { mix, time_scale, .. } = *emulated;
    let overheads = OVERHEADS.text();
    // tokio-split is sized by the mix: workers for the light share of the work, rounded up, and threads for the rest.
    let front = ((cores as f64 * mix.light_share()?).ceil() as usize).clamp(1, cores - 1);
    let back = cores - front;
    let forebay = |name, uses, policy| {
        let emulation = format!("--burn sleep --overheads {overheads} --time-scale {time_scale}");
        forebay(name, uses, format!("--policy {policy} --workers {cores} {SPIN_BLINDLY} {emulation}"))
    };
    let work = format!("--work sleep --cores {cores} --overheads {overheads} --time-scale {time_scale}");
    let prices = OVERHEADS.times(time_scale);
    let work_of_go = format!(
        "-work sleep -cores {cores} -receive {}ns -send {}ns -give-way {}ns",
        prices.receive.get(),
        prices.send.get(),
        prices.yield_.get()
    );
    let heavy_ns = (mix.heavy_us * 1e3) as u64 * time_scale / 2;
    let mut peers = vec![
        ours(BARE, "", format!("--shape bare --threads {cores} {work}")),
        forebay("forebay-hybrid", "batch, yield 1us", "hybrid"),
        ours("tokio-task", "", format!("--shape tokio-task --threads {cores} {work}")),
        forebay("forebay-ondemand", "batch, yield 1us", "ondemand"),
        ours("rayon", "", format!("--shape rayon --threads {cores} {work}")),
        forebay("forebay-auto", "batch, yield 1us", "auto"),
        ours("tokio-loop", "", format!("--shape tokio-loop --threads {cores} {work}")),
        forebay("forebay-steal", "batch", "steal"),
        tokio_blocking("tokio-blocking", "cost", cores, 512, heavy_ns, &work),
        tokio_blocking("tokio-split", "cost, sized", front, back, heavy_ns, &work),
        go("go-goroutine", "", work_of_go.clone()),
    ];
    peers.extend(yielding(cores, time_scale, &work, &work_of_go));
    Ok(peers)
}

/// Those that burn on `cores` real ones. The isolated Forebay is the first, because all are measured at shares of its
/// capacity.
pub(crate) fn on_real_cores(cores: usize) -> Vec<Peer> {
    let forebay = |name, uses, policy| {
        forebay(name, uses, format!("--policy {policy} --workers {cores} --pin {SPIN_BLINDLY} --burn cpu"))
    };
    let work = "--work cpu";
    let mut peers = vec![
        forebay(ISOLATED, "batch, spin", "isolated"),
        forebay("forebay-hybrid", "batch, spin, yield 1us", "hybrid"),
        ours("tokio-task", "", format!("--shape tokio-task --threads {cores} {work}")),
        forebay("forebay-ondemand", "batch, spin, yield 1us", "ondemand"),
        tokio_blocking("tokio-blocking", "cost", cores, 512, 100_000, work),
        forebay("forebay-steal", "batch, spin", "steal"),
        ours("rayon", "", format!("--shape rayon --threads {cores} {work}")),
        forebay("forebay-auto", "batch, spin, yield 1us", "auto"),
        go("go-goroutine", "", "-work cpu".to_owned()),
    ];
    peers.extend(yielding(cores, 1, work, "-work cpu"));
    peers
}

/// Whether the peer of this name yields, and is none of Forebay's.
pub(crate) fn is_yielding_rival(name: &str) -> bool {
    ["tokio-yield", "go-gosched", "rayon-split"].iter().any(|rival| name.starts_with(rival))
}

/// Forebay's handler with its checkpoints; class and cost are not declared.
const SPIN_BLINDLY: &str = "--classify none --handler spin";

/// Those that yield. Emulated cores let threads sleep, so nothing there gains from spinning.
fn yielding(cores: usize, time_scale: u64, work: &str, work_of_go: &str) -> Vec<Peer> {
    let tokio = |name, uses, quantum_us: u64| {
        let quantum_ns = quantum_us * 1_000 * time_scale;
        ours(name, uses, format!("--shape tokio-yield --threads {cores} --quantum-ns {quantum_ns} {work}"))
    };
    let quantum_us = 10 * time_scale;
    let rayon = format!("--shape rayon-split --threads {cores} --quantum-ns {} {work}", quantum_us * 1_000);
    vec![
        tokio("tokio-yield-1us", "batch, spin, yield 1us", 1),
        tokio("tokio-yield-10us", "batch, spin, yield 10us", 10),
        tokio("tokio-yield-50us", "batch, spin, yield 50us", 50),
        go("go-gosched", "batch, spin, yield 10us", format!("-quantum {quantum_us}us {work_of_go}")),
        ours("rayon-split", "batch, spin, yield 10us", rayon),
    ]
}

fn tokio_blocking(
    name: &'static str,
    uses: &'static str,
    threads: usize,
    blocking: usize,
    heavy_ns: u64,
    work: &str,
) -> Peer {
    let sizes = format!("--threads {threads} --blocking {blocking} --heavy-ns {heavy_ns}");
    ours(name, uses, format!("--shape tokio-blocking {sizes} {work}"))
}

/// Serves all that comes, however long it has waited, as its rivals do.
fn forebay(name: &'static str, uses: &'static str, arguments: String) -> Peer {
    Peer { name, uses, program: Program::Forebay(arguments + " --max-wait off") }
}

fn ours(name: &'static str, uses: &'static str, arguments: String) -> Peer {
    Peer { name, uses, program: Program::Ours(arguments) }
}

fn go(name: &'static str, uses: &'static str, arguments: String) -> Peer {
    Peer { name, uses, program: Program::Go(arguments) }
}
