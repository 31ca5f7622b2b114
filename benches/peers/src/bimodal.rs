//! Section `bimodal`: short requests among heavy ones, on emulated cores.

use crate::arguments::Arguments;
use crate::figures::{Figures, Tables};
use crate::lineup::on_emulated_cores;
use crate::offer::{offer, plan, workload};
use crate::peer::{BARE, Started};
use crate::tables::{line, ratio, row, value, with_spread};
use anyhow::{Context, Result, anyhow};
use forebay::time::Nanos;
use loadgen::plan::Plan;

/// The name of its table.
pub(crate) const TABLE: &str = "bimodal";

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
const WORKLOAD: &str = "extreme-bimodal";

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
pub(crate) fn round(arguments: &Arguments, seed: u64, tables: &mut Tables) -> Result<()> {
    let setting = Setting::of(arguments);
    let cores = usize::from(setting.cores);
    let peers = on_emulated_cores(cores, setting.time_scale).into_iter();
    for peer in peers.filter(|peer| arguments.wants(peer.name, BARE)) {
        let server = match peer.start().map_err(|failure| anyhow!("{failure}"))? {
            Started::Running(server) => server,
            Started::Skipped(reason) => {
                eprintln!("{} is skipped: {reason}", peer.name);
                continue;
            }
        };
        let base = plan(&server, &workload(WORKLOAD)?);
        let plan = Plan {
            rate: base.workload.rate_at(setting.load, cores, setting.time_scale),
            duration: setting.counted,
            warmup: setting.warmup,
            flows: 32 * setting.cores,
            time_scale: setting.time_scale,
            timeout: Some(TIMEOUT),
            seed,
            workers: Some(setting.cores),
            ..base
        };
        let offered = offer(peer.name, &server, &plan)?;
        if !offered.is_valid() {
            eprintln!("{}: INVALID: {}", peer.name, offered.report.reasons.join("; "));
        }
        let (short, long) = (offered.latency_us("short")?, offered.latency_us("long")?);
        tables.entry(TABLE).add(
            peer.name,
            peer.uses,
            [
                ("p50_us", short.p50),
                ("p99_us", short.p99),
                ("p99_9_us", short.p99_9),
                ("long_p50_us", long.p50),
                ("long_p99_us", long.p99),
                ("unanswered", Some((offered.report.sent - offered.report.fates.answered) as f64)),
                ("valid", Some(f64::from(u8::from(offered.is_valid())))),
            ],
        );
        server.stop().with_context(|| peer.name)?;
    }
    Ok(())
}

/// After so long a request counts as unanswered: longer than the queue of any peer that keeps up at this load.
const TIMEOUT: Nanos = Nanos::from_secs(8);

/// The table, if there are figures.
pub(crate) fn render(figures: &Figures, setting: &Setting) -> String {
    let Some(bare) = figures.of(BARE) else { return String::new() };
    let text = &mut String::new();
    let Setting { cores, time_scale, load, .. } = *setting;
    line(text, "\n### bimodal spin, emulated cores\n");
    line(
        text,
        &format!(
            "{WORKLOAD} x{time_scale}, {cores} emulated cores, load {load}; nobody pinned; medians of {} rounds, \
             smallest..largest in parentheses. Milliseconds; inf: not answered within the timeout.\n",
            bare.rounds.len()
        ),
    );
    line(text, "| peer | uses | short: p50 | p99 | p99.9 | to bare | long: p50 | p99 | unanswered | valid rounds |");
    line(text, "|---|---|---|---|---|---|---|---|---|---|");
    for peer in &figures.peers {
        let ms = |us: f64| format!("{:.2}", us / 1e3);
        let valid = peer.values("valid");
        let cells = [
            peer.uses.clone(),
            value(peer, "p50_us", ms),
            value(peer, "p99_us", ms),
            with_spread(peer, "p99_9_us", ms),
            ratio(peer, bare, "p99_9_us"),
            value(peer, "long_p50_us", ms),
            value(peer, "long_p99_us", ms),
            value(peer, "unanswered", |count| format!("{count:.0}")),
            format!("{:.0} of {}", valid.iter().sum::<f64>(), valid.len()),
        ];
        row(text, &peer.peer, &cells);
    }
    std::mem::take(text)
}
