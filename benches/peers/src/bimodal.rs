//! Section `bimodal`: short requests among heavy ones, on emulated cores.

use crate::arguments::Arguments;
use crate::figures::Figures;
use crate::peer::{Peer, Started};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::{Block, Percentile};
use forebay::overheads::Overheads;
use forebay::time::Nanos;
use forebay::workload::Workload;
use loadgen::interrupt::Interrupt;
use loadgen::plan::Plan;
use loadgen::progress::Progress;
use loadgen::report::validity::Validity;
use loadgen::run;

/// Emulated cores, and what each of them is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Cores.
    pub(crate) cores: u16,
    /// So long lasts a microsecond, in microseconds.
    pub(crate) time_scale: u64,
    /// Share of the capacity.
    pub(crate) load: f64,
    warmup: Nanos,
    counted: Nanos,
}

/// What is offered.
pub(crate) const WORKLOAD: &str = "extreme-bimodal";

impl Setting {
    /// As [`Arguments`] say.
    pub(crate) fn of(arguments: &Arguments) -> Setting {
        let ms = Nanos::from_millis;
        if arguments.is_quick() {
            return Setting { cores: 4, time_scale: 200, load: 0.7, warmup: ms(50), counted: ms(300) };
        }
        Setting { cores: 14, time_scale: 1_000, load: 0.7, warmup: ms(1_500), counted: ms(5_000) }
    }
}

/// Measures each peer once, all with the schedule of `seed`.
///
/// # Errors
/// If one does not start.
pub(crate) fn round(arguments: &Arguments, seed: u64, figures: &mut Figures) -> Result<()> {
    let setting = Setting::of(arguments);
    let workload: Workload = WORKLOAD.parse().context("a preset")?;
    let interrupt = Interrupt::default();
    let cores = usize::from(setting.cores);
    for peer in Peer::burning(cores, setting.time_scale).into_iter().filter(|peer| arguments.wants(peer.name)) {
        let server = match peer.start().map_err(|failure| anyhow!("{failure}"))? {
            Started::Running(server) => server,
            Started::Skipped(reason) => {
                eprintln!("{} is skipped: {reason}", peer.name);
                continue;
            }
        };
        let plan = Plan {
            target: server.udp,
            workload: workload.clone(),
            then: None,
            rate: workload.rate_at(setting.load, cores, setting.time_scale),
            duration: setting.counted,
            warmup: setting.warmup,
            flows: 32 * setting.cores,
            time_scale: setting.time_scale,
            timeout: Some(TIMEOUT),
            percentile: Percentile::P99_9,
            seed,
            payload_bytes: 0,
            deadline_us: 0,
            workers: Some(setting.cores),
            overheads: Overheads::NONE,
        };
        let outcome = run::execute(&plan, None, &interrupt, Progress::new(peer.name, &plan, true));
        let report = outcome.map_err(|failure| anyhow!("{failure}")).with_context(|| peer.name)?.report;
        let class = |name| -> Result<&Block> { report.latency_us.of(name).with_context(|| format!("no class {name}")) };
        let (short, long) = (class("short")?, class("long")?);
        let valid = report.verdict == Validity::Valid;
        if !valid {
            eprintln!("{}: INVALID: {}", peer.name, report.reasons.join("; "));
        }
        figures.add(
            peer.name,
            [
                ("p50_us", short.p50),
                ("p99_us", short.p99),
                ("p99_9_us", short.p99_9),
                ("long_p50_us", long.p50),
                ("long_p99_us", long.p99),
                ("unanswered", Some((report.sent - report.fates.answered) as f64)),
                ("valid", Some(f64::from(u8::from(valid)))),
            ],
        );
        server.stop().with_context(|| peer.name)?;
    }
    Ok(())
}

/// After so long a request counts as unanswered: longer than the queue of any peer that keeps up at this load.
const TIMEOUT: Nanos = Nanos::from_secs(8);
