//! Section `bimodal`: light requests among heavy ones, on emulated cores that pay for their steps.

use crate::arguments::Arguments;
use crate::figures::{Figures, Tables};
use crate::lineup::{is_yielding_rival, on_emulated_cores};
use crate::mixes::{EMULATED, EMULATED_IN_A_HURRY, Emulated, Mix, OVERHEADS};
use crate::offer::{offer, plan, workload};
use crate::peer::{BARE, Started};
use crate::tables::{doubt, grouped, line, row, times, to_best, value, with_spread};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use loadgen::plan::Plan;

/// Emulated cores, and what each of them is offered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// Cores.
    pub(crate) cores: u16,
    /// Share of the capacity, receives and sends included.
    pub(crate) load: f64,
    warmup: Nanos,
    counted: Nanos,
    mixes: &'static [Emulated],
}

impl Setting {
    /// As [`Arguments`] say.
    pub(crate) fn of(arguments: &Arguments) -> Setting {
        let ms = Nanos::from_millis;
        if arguments.is_quick() {
            return Setting { cores: 4, load: 0.7, warmup: ms(50), counted: ms(300), mixes: &EMULATED_IN_A_HURRY };
        }
        let counted = Nanos::from_secs(arguments.seconds);
        Setting { cores: 14, load: 0.8, warmup: ms(1_500), counted, mixes: &EMULATED }
    }
}

/// The name of the table of this mix.
pub(crate) fn table(mix: &Mix) -> String {
    format!("bimodal/{}", mix.workload)
}

/// Measures each peer once with each mix, all with the schedule of `seed`.
///
/// # Errors
/// If one does not start.
pub(crate) fn round(arguments: &Arguments, seed: u64, tables: &mut Tables) -> Result<()> {
    let setting = Setting::of(arguments);
    for emulated in setting.mixes {
        let peers = on_emulated_cores(setting.cores.into(), emulated)?.into_iter();
        for peer in peers.filter(|peer| arguments.wants(peer.name, BARE)) {
            let server = match peer.start().map_err(|failure| anyhow!("{failure}"))? {
                Started::Running(server) => server,
                Started::Skipped(reason) => {
                    eprintln!("{} is skipped: {reason}", peer.name);
                    continue;
                }
            };
            let Emulated { mix, time_scale, longer } = *emulated;
            let base = plan(&server, &workload(mix.workload)?.with_time_beside(OVERHEADS.per_request()));
            let plan = Plan {
                rate: base.workload.rate_at(setting.load, setting.cores.into(), time_scale),
                duration: setting.counted.times(longer),
                warmup: setting.warmup,
                flows: 32 * setting.cores,
                time_scale,
                timeout: Some(TIMEOUT),
                seed,
                workers: Some(setting.cores),
                overheads: OVERHEADS,
                ..base
            };
            let offered = offer(peer.name, &server, &plan)?;
            if !offered.is_valid() {
                eprintln!("{}: INVALID: {}", peer.name, offered.report.reasons.join("; "));
            }
            let (light, heavy) = (offered.latency_us("short")?, offered.latency_us("long")?);
            let costs = |us: Option<f64>, cost_us: f64| us.map(|us| us / (cost_us * time_scale as f64));
            tables.entry(&table(&mix)).add(
                peer.name,
                peer.uses,
                [
                    ("p50", costs(light.p50, mix.light_us)),
                    ("p99", costs(light.p99, mix.light_us)),
                    ("p99_9", costs(light.p99_9, mix.light_us)),
                    ("p99_known", Some(f64::from(u8::from(light.supports(Percentile::P99))))),
                    ("p99_9_known", Some(f64::from(u8::from(light.supports(Percentile::P99_9))))),
                    ("lights", Some(light.count as f64)),
                    ("heavy_p50", costs(heavy.p50, mix.heavy_us)),
                    ("unanswered", Some((offered.report.sent - offered.report.fates.answered) as f64)),
                    ("valid", Some(f64::from(u8::from(offered.is_valid())))),
                ],
            );
            server.stop().with_context(|| peer.name)?;
        }
    }
    Ok(())
}

/// After so long a request counts as unanswered: longer than the queue of any peer that keeps up at this load.
const TIMEOUT: Nanos = Nanos::from_secs(8);

/// The tables, as far as there are figures.
pub(crate) fn render(tables: &Tables, setting: &Setting) -> String {
    let mut text = String::new();
    for Emulated { mix, time_scale, .. } in setting.mixes {
        if let Some(figures) = tables.of(&table(mix)) {
            render_mix(&mut text, figures, setting, mix, *time_scale);
        }
    }
    text
}

fn render_mix(text: &mut String, figures: &Figures, setting: &Setting, mix: &Mix, time_scale: u64) {
    let Some(first) = figures.peers.first() else { return };
    let Setting { cores, load, .. } = *setting;
    line(text, &format!("\n### bimodal, {cores} emulated cores, {}, load {load}\n", mix.name));
    let lights = figures.peers.iter().filter_map(|peer| peer.spread("lights")).map(|spread| spread.0);
    line(
        text,
        &format!(
            "Times {time_scale}; every core pays `{}` prices; medians of {} rounds, smallest..largest in parentheses. Light: \
             multiples of {} us, over at least {} requests. Heavy: multiples of {} ms. To best: beside the best rival that \
             yields. inf: not answered within {TIMEOUT}. ?: in half of the rounds or more not known within a factor of two.\n",
            OVERHEADS.text(),
            first.rounds.len(),
            mix.light_us,
            grouped(lights.reduce(f64::min).unwrap_or_default()),
            mix.heavy_us / 1e3,
        ),
    );
    line(
        text,
        "| peer | uses | light: p50 | p99 | to best | p99.9 | to best | heavy: p50 | to best | unanswered | valid |",
    );
    line(text, "|---|---|---|---|---|---|---|---|---|---|---|");
    let bests = ["p99", "p99_9", "heavy_p50"].map(|name| figures.least(name, is_yielding_rival));
    for peer in &figures.peers {
        let valid = peer.values("valid");
        let cells = [
            peer.uses.clone(),
            value(peer, "p50", times),
            with_spread(peer, "p99", times) + doubt(peer, "p99_known"),
            to_best(peer, bests[0], "p99"),
            with_spread(peer, "p99_9", times) + doubt(peer, "p99_9_known"),
            to_best(peer, bests[1], "p99_9"),
            with_spread(peer, "heavy_p50", |times| format!("{times:.2}")),
            to_best(peer, bests[2], "heavy_p50"),
            value(peer, "unanswered", |count| format!("{count:.0}")),
            format!("{:.0} of {}", valid.iter().sum::<f64>(), valid.len()),
        ];
        row(text, &peer.peer, &cells);
    }
    if let [Some(p99), Some(p99_9), Some(heavy)] = bests {
        let best = format!("by p99 {}, by p99.9 {}, by the heavy ones {}", p99.peer, p99_9.peer, heavy.peer);
        line(text, &format!("\nBest rival that yields: {best}."));
    }
}
