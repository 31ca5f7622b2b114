//! Section `echo`: the datagram path on one CPU.

use crate::arguments::Arguments;
use crate::cpus::Division;
use crate::drive::{self, Span, Target};
use crate::figures::{Figures, median};
use crate::peer::{Peer, Started};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::{Block, Percentile};
use forebay::time::Nanos;

/// Datagrams in a train, where trains are sent.
pub(crate) const TRAIN: usize = 8;

/// Even on a machine that hardly lets the servers run, a window of an open loop should have a request in it.
const RATE_MIN: f64 = 1_000.0;

/// Measures each peer once, all with the schedule of `seed`.
///
/// # Errors
/// If one does not start, or loses what it was sent.
pub(crate) fn round(arguments: &Arguments, seed: u64, figures: &mut Figures) -> Result<()> {
    let division = Division::new()?;
    let (warmup_ms, counted_ms_max, windows) = if arguments.is_quick() { (10, 50, 1) } else { (150, 1_000, 7) };
    let span = |counted_ms: u64| Span {
        warmup: Nanos::from_millis(warmup_ms),
        counted: Nanos::from_millis(counted_ms.min(counted_ms_max)),
    };
    let mut half = None;
    for peer in Peer::echoing().into_iter().filter(|peer| arguments.wants(peer.name)) {
        let server = match division.on_server_cpu(|| peer.start()).map_err(|failure| anyhow!("{failure}"))? {
            Started::Running(server) => server,
            Started::Skipped(reason) => {
                eprintln!("{} is skipped: {reason}", peer.name);
                continue;
            }
        };
        let target = Target { address: server.udp, process: server.id() };
        let measured = division.on_generator_cpu(|| {
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
        figures.add(peer.name, measured.with_context(|| peer.name)?);
        server.stop().with_context(|| peer.name)?;
    }
    Ok(())
}
