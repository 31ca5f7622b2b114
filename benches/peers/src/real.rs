//! Section `real`: light requests among heavy ones, on real cores.

use crate::arguments::Arguments;
use crate::cpus::Division;
use crate::figures::Tables;
use crate::lineup::on_real_cores;
use crate::mixes::{Mix, REAL};
use crate::offer::workload;
use crate::peer::{ISOLATED, Started};
use crate::trial::{GENERATOR_CPUS, Run, Trial, undisturbed};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::Percentile;
use forebay::time::Nanos;

/// Shares of the isolated Forebay's capacity that are offered.
pub(crate) const LOADS: [f64; 2] = [0.5, 0.7];
/// Numbers of cores, a table for each.
pub(crate) const CORES: [usize; 2] = [1, 2];

/// How long each run takes.
#[derive(Clone, Copy, Debug)]
struct Span {
    saturated: Nanos,
    warmup: Nanos,
    counted: Nanos,
    /// Whether a disturbed run is repeated.
    patient: bool,
}

impl Span {
    fn of(arguments: &Arguments) -> Span {
        let ms = Nanos::from_millis;
        if arguments.is_quick() {
            return Span { saturated: ms(100), warmup: ms(20), counted: ms(200), patient: false };
        }
        let counted = Nanos::from_secs(arguments.seconds);
        Span { saturated: ms(2_000), warmup: ms(1_000), counted, patient: !arguments.once }
    }
}

/// The name of the table of this mix on this many cores.
pub(crate) fn table(cores: usize, mix: &Mix) -> String {
    format!("real/{cores}/{}", mix.workload)
}

/// The name of a figure of the run at `load`.
pub(crate) fn at(load: f64, figure: &str) -> String {
    format!("at_{:.0}_{figure}", load * 100.0)
}

/// The division of CPUs for a server of `cores`; [`Division::Shared`] where there are too few.
///
/// # Errors
/// See [`Division::new`].
pub(crate) fn division(cores: usize) -> Result<Division> {
    Division::new(cores, GENERATOR_CPUS)
}

/// Measures each peer once with each mix and number of cores, all with the schedule of `seed`.
///
/// # Errors
/// If one does not start.
pub(crate) fn round(arguments: &Arguments, seed: u64, tables: &mut Tables) -> Result<()> {
    let (span, quick) = (Span::of(arguments), arguments.is_quick());
    for cores in CORES.into_iter().take(if quick { 1 } else { CORES.len() }) {
        let division = division(cores)?;
        if division == Division::Shared {
            eprintln!("{cores} cores are left out: there are too few CPUs");
            continue;
        }
        for mix in REAL.iter().take(if quick { 1 } else { REAL.len() }) {
            let mut capacity = None;
            for peer in on_real_cores(cores).into_iter().filter(|peer| arguments.wants(peer.name, ISOLATED)) {
                let server = match division.on_server_cpus(|| peer.start()).map_err(|failure| anyhow!("{failure}"))? {
                    Started::Running(server) => server,
                    Started::Skipped(reason) => {
                        eprintln!("{} is skipped: {reason}", peer.name);
                        continue;
                    }
                };
                let workload = workload(mix.workload)?;
                let (name, division) = (peer.name, &division);
                let trial = Trial { name, server: &server, division, workload: &workload, cores, seed };
                let measuring = Measuring { trial, mix, span };
                let measured = division.on_generator_cpus(|| measuring.measure(&mut capacity));
                tables.entry(&table(cores, mix)).add(peer.name, peer.uses, measured.with_context(|| peer.name)?);
                server.stop().with_context(|| peer.name)?;
            }
        }
    }
    Ok(())
}

/// One peer with one mix.
struct Measuring<'a> {
    trial: Trial<'a>,
    mix: &'a Mix,
    span: Span,
}

impl Measuring<'_> {
    /// Its capacity, and what it does at each load: shares of `capacity`, which the first peer sets.
    fn measure(&self, capacity: &mut Option<f64>) -> Result<Vec<(String, Option<f64>)>> {
        let name = self.trial.name;
        let own = self.trial.capacity(self.span.saturated, self.span.patient)?.0.cpus;
        let base = *capacity.get_or_insert(own);
        let mut figures = vec![("capacity".to_owned(), Some(own))];
        for load in LOADS {
            let Run { offered, others, is_valid } =
                undisturbed(self.span.patient, || self.trial.run(load * base, self.span.warmup, self.span.counted))?;
            let (light, heavy) = (offered.latency_us("short")?, offered.latency_us("long")?);
            let cpus = offered.server_cpu.as_secs_f64() / offered.completed.took.as_secs_f64();
            if !is_valid {
                let reasons = offered.report.reasons.join("; ");
                eprintln!("{name} at {load}: not valid; others took {others:.3} of its CPUs; {reasons}");
            }
            figures.extend([
                (at(load, "rate_rps"), Some(offered.report.offered_rps)),
                (at(load, "p50"), light.p50.map(|us| us / self.mix.light_us)),
                (at(load, "p90"), light.p90.map(|us| us / self.mix.light_us)),
                (at(load, "p99"), light.p99.map(|us| us / self.mix.light_us)),
                (at(load, "p99_9"), light.p99_9.map(|us| us / self.mix.light_us)),
                (at(load, "p99_known"), Some(f64::from(u8::from(light.supports(Percentile::P99))))),
                (at(load, "p99_9_known"), Some(f64::from(u8::from(light.supports(Percentile::P99_9))))),
                (at(load, "lights"), Some(light.count as f64)),
                (at(load, "heavy_p50"), heavy.p50.map(|us| us / self.mix.heavy_us)),
                (at(load, "cpus"), Some(cpus)),
                (at(load, "slip_p99_9_us"), offered.report.slip_us.p99_9),
                (at(load, "others"), Some(others)),
                (at(load, "unanswered"), Some((offered.report.sent - offered.report.fates.answered) as f64)),
                (at(load, "valid"), Some(f64::from(u8::from(is_valid)))),
            ]);
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    // Is a disturbed run repeated unless that is not wanted?
    #[test]
    fn runs_are_repeated_unless_once_is_enough() {
        for (flags, patient) in [(vec![], true), (vec!["--once"], false), (vec!["--quick"], false)] {
            let arguments = Arguments::try_parse_from([vec!["peers"], flags.clone()].concat()).expect("sound flags");
            assert_eq!(Span::of(&arguments).patient, patient, "{flags:?}");
        }
    }
}
