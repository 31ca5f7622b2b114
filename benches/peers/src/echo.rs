//! Section `echo`: the datagram path on one CPU.

use crate::arguments::Arguments;
use crate::cpus::Division;
use crate::drive::{self, Span, Target};
use crate::figures::{Figures, Tables, median};
use crate::line::FLOWS;
use crate::lineup::echoing;
use crate::peer::{BARE, Started};
use crate::tables::{grouped, line, ratio, row, value, with_spread};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::{Block, Percentile};
use forebay::time::Nanos;

/// The name of its table.
pub(crate) const TABLE: &str = "echo";

/// Datagrams in a train, where trains are sent.
const TRAIN: usize = 8;

/// Even on a machine that hardly lets the servers run, a window of an open loop should have a request in it.
const RATE_MIN: f64 = 1_000.0;

/// Measures each peer once, all with the schedule of `seed`.
///
/// # Errors
/// If one does not start, or loses what it was sent.
pub(crate) fn round(arguments: &Arguments, seed: u64, tables: &mut Tables) -> Result<()> {
    let division = Division::new(1, 1)?;
    let (warmup_ms, counted_ms_max, windows) = if arguments.is_quick() { (10, 50, 1) } else { (150, 1_000, 7) };
    let span = |counted_ms: u64| Span {
        warmup: Nanos::from_millis(warmup_ms),
        counted: Nanos::from_millis(counted_ms.min(counted_ms_max)),
    };
    let mut half = None;
    for peer in echoing().into_iter().filter(|peer| arguments.wants(peer.name, BARE)) {
        let server = match division.on_server_cpus(|| peer.start()).map_err(|failure| anyhow!("{failure}"))? {
            Started::Running(server) => server,
            Started::Skipped(reason) => {
                eprintln!("{} is skipped: {reason}", peer.name);
                continue;
            }
        };
        let target = Target { address: server.udp, process: server.id() };
        let measured = division.on_generator_cpus(|| {
            let one_by_one = drive::saturate(target, 1, span(800))?;
            let trains = drive::saturate(target, TRAIN, span(500))?;
            let trips = drive::round_trips(target, span(500))?;
            let rate = *half.get_or_insert((one_by_one.pps / 2.0).max(RATE_MIN));
            let blocks = (0..windows).map(|window| drive::open_loop(target, rate, seed * windows + window, span(200)));
            let blocks = blocks.collect::<Result<Vec<Block>>>()?;
            // On a virtual machine a CPU stands still for milliseconds some times per second, and one such moment makes the
            // p99 of the window that it falls into: the medians over windows count.
            let typical = |percentile| {
                let values = blocks.iter().map(|block| block.percentile(percentile).unwrap_or(f64::INFINITY));
                median(values.collect())
            };
            anyhow::Ok([
                ("pps", Some(one_by_one.pps)),
                ("cpu_us", Some(one_by_one.cpu_us)),
                ("server_busy", Some(one_by_one.server_busy)),
                ("generator_waits", Some(one_by_one.generator_waits)),
                ("trains_pps", Some(trains.pps)),
                ("trains_cpu_us", Some(trains.cpu_us)),
                ("trains_server_busy", Some(trains.server_busy)),
                ("trains_generator_waits", Some(trains.generator_waits)),
                ("one_p50_us", trips.p50),
                ("one_p99_us", trips.p99),
                ("rate_rps", Some(rate)),
                ("p50_us", typical(Percentile::P50)),
                ("p99_us", typical(Percentile::P99)),
                ("p99_9_us", typical(Percentile::P99_9)),
            ])
        });
        tables.entry(TABLE).add(peer.name, peer.uses, measured.with_context(|| peer.name)?);
        server.stop().with_context(|| peer.name)?;
    }
    Ok(())
}

/// The tables, if there are figures; `pinning` says where server and generator run.
pub(crate) fn render(figures: &Figures, pinning: &str) -> String {
    let Some(bare) = figures.of(BARE) else { return String::new() };
    let text = &mut String::new();
    let rate = bare.median("rate_rps").unwrap_or_default();
    line(text, "\n### echo, one CPU\n");
    line(
        text,
        &format!(
            "{}; medians of {} rounds, smallest..largest in parentheses; to bare: median of the ratios within a \
             round. 64-byte datagrams from {FLOWS} flows. Latency under load: medians over windows of 0.2 s.\n",
            pinning,
            bare.rounds.len()
        ),
    );
    line(
        text,
        "| peer | uses | packets/s | to bare | CPU us/packet | trains of 8: packets/s | to bare | CPU us/packet |",
    );
    line(text, "|---|---|---|---|---|---|---|---|");
    for peer in &figures.peers {
        let cells = [
            peer.uses.clone(),
            with_spread(peer, "pps", grouped),
            ratio(peer, bare, "pps"),
            value(peer, "cpu_us", |us| format!("{us:.2}")),
            with_spread(peer, "trains_pps", grouped),
            ratio(peer, bare, "trains_pps"),
            value(peer, "trains_cpu_us", |us| format!("{us:.2}")),
        ];
        row(text, &peer.peer, &cells);
    }
    let least = |name| figures.peers.iter().filter_map(move |peer| peer.median(name)).fold(1.0, f64::min);
    line(
        text,
        &format!(
            "\nThe servers' CPU was busy with them for at least {:.0} % of the time ({:.0} % with trains of {TRAIN}).\n",
            least("server_busy") * 100.0,
            least("trains_server_busy") * 100.0
        ),
    );
    line(
        text,
        &format!(
            "| peer | uses | one outstanding, us: p50 | to bare | p99 | at {}/s, us: p50 | to bare | p99 | to bare | p99.9 |",
            grouped(rate)
        ),
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|");
    for peer in &figures.peers {
        let us = |us: f64| format!("{us:.1}");
        let cells = [
            peer.uses.clone(),
            with_spread(peer, "one_p50_us", us),
            ratio(peer, bare, "one_p50_us"),
            value(peer, "one_p99_us", us),
            with_spread(peer, "p50_us", us),
            ratio(peer, bare, "p50_us"),
            with_spread(peer, "p99_us", us),
            ratio(peer, bare, "p99_us"),
            with_spread(peer, "p99_9_us", us),
        ];
        row(text, &peer.peer, &cells);
    }
    std::mem::take(text)
}
