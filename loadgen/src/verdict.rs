//! Whether a run may be trusted, and if not, why. A verdict is about the measurement, never about the server.

use crate::pacer::Pacer;
use crate::tally::{SLIP_LIMIT, Tally};
use crate::text;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use serde::Serialize;

/// The stamp on every result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// The figures are what they say they are.
    Valid,
    /// They are not; the reasons say why.
    Invalid,
}

/// What a verdict rests on, beside the tally.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    /// The percentile that the run is about.
    pub(crate) percentile: Percentile,
    /// How the schedule was kept, or not.
    pub(crate) pacer: Pacer,
    /// Datagrams that the kernel dropped at our own sockets, or why that is not known.
    pub(crate) own_socket_drops: Result<u64, String>,
    /// With emulated cores, the server's excess sleep as a share of its sleep.
    pub(crate) overshoot_share: Option<f64>,
    /// Why the server's admin endpoint, if one was named, did not answer.
    pub(crate) endpoint_error: Option<String>,
    /// Whether somebody stopped the run.
    pub(crate) interrupted: bool,
}

/// A p99 of slip below this is never held against a run, however short its latencies.
const SLIP_P99_FLOOR: Nanos = Nanos::from_millis(1);
/// Of the measured median sojourn.
const SLIP_P99_SHARE: f64 = 0.05;
/// Of all sends.
const SLIPS_OVER_LIMIT_SHARE: f64 = 0.001;
const OVERSHOOT_SHARE_MAX: f64 = 0.02;

/// The verdict and every reason against the run; a valid run has none.
pub(crate) fn judge(tally: &Tally, evidence: &Evidence) -> (Verdict, Vec<String>) {
    let reasons: Vec<String> = [
        evidence.interrupted.then(|| "the run was interrupted".to_owned()),
        too_few_samples(tally.fates.sum(), evidence.percentile),
        slip_p99(tally, evidence.pacer),
        slips_over_limit(tally, evidence.pacer),
        own_socket_drops(&evidence.own_socket_drops),
        overshoot(evidence.overshoot_share),
        evidence.endpoint_error.as_ref().map(|error| format!("the server's admin endpoint did not answer: {error}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    (if reasons.is_empty() { Verdict::Valid } else { Verdict::Invalid }, reasons)
}

fn too_few_samples(sent: u64, percentile: Percentile) -> Option<String> {
    let needed = percentile.samples_needed();
    (sent < needed).then(|| format!("too few samples: {percentile} needs {needed} requests, and {sent} were sent"))
}

fn slip_p99(tally: &Tally, pacer: Pacer) -> Option<String> {
    let median_us = tally.latency_us.all().p50.unwrap_or(0.0);
    let limit_us = SLIP_P99_FLOOR.as_micros_f64().max(SLIP_P99_SHARE * median_us);
    let slip_us = tally.slip_us.p99.unwrap_or(f64::INFINITY);
    (slip_us > limit_us).then(|| {
        format!(
            "the generator could not keep its schedule: p99 of the slip is {}, above {} (the larger of 1 ms and \
             5 % of the median latency); {}",
            text::time(Some(slip_us)),
            text::time(Some(limit_us)),
            pacer.remedy()
        )
    })
}

fn slips_over_limit(tally: &Tally, pacer: Pacer) -> Option<String> {
    let sends = tally.slip_us.count;
    (tally.slips_over_limit as f64 > SLIPS_OVER_LIMIT_SHARE * sends as f64).then(|| {
        format!(
            "the generator could not keep its schedule: {} of {sends} sends were more than {} late, above 0.1 %; {}",
            tally.slips_over_limit,
            text::time(Some(SLIP_LIMIT.as_micros_f64())),
            pacer.remedy()
        )
    })
}

fn own_socket_drops(drops: &Result<u64, String>) -> Option<String> {
    match drops {
        Ok(0) => None,
        Ok(drops) => Some(format!("the kernel dropped {drops} replies at the generator's own sockets")),
        Err(error) => Some(format!("drops at the generator's own sockets are not known: {error}")),
    }
}

fn overshoot(share: Option<f64>) -> Option<String> {
    let share = share.filter(|share| *share > OVERSHOOT_SHARE_MAX)?;
    Some(format!(
        "emulated cores overslept by {:.1} % of the slept time, above 2 %: raise --time-scale, or leave the machine more \
         to itself",
        share * 100.0
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_class::{ByClass, block_of};
    use crate::tally::Fates;
    use forebay::metrics::ALL_CLASSES;

    fn tally(latency_us: f64, slip_us: f64, slips_over_limit: u64) -> Tally {
        let latency = ByClass(vec![(ALL_CLASSES, block_of(vec![latency_us; 3_000]))]);
        Tally {
            fates: Fates { answered: 3_000, ..Fates::default() },
            latency_us: latency.clone(),
            latency_answered_us: latency.clone(),
            slowdown: latency,
            slip_us: block_of(vec![slip_us; 3_000]),
            slips_over_limit,
        }
    }

    fn sound() -> Evidence {
        Evidence {
            percentile: Percentile::P99_9,
            pacer: Pacer::RealTime,
            own_socket_drops: Ok(0),
            overshoot_share: Some(0.02),
            endpoint_error: None,
            interrupted: false,
        }
    }

    #[test]
    fn a_sound_run_is_valid_up_to_each_limit() {
        assert_eq!(judge(&tally(100.0, 1_000.0, 3), &sound()), (Verdict::Valid, vec![]));
        assert_eq!(judge(&tally(60_000.0, 2_999.0, 0), &sound()).0, Verdict::Valid);
    }

    #[test]
    fn each_defect_is_a_reason_of_its_own() {
        let fine = || tally(100.0, 10.0, 0);
        let percentile = Percentile::P99_95;
        for (tally, evidence, expected) in [
            (tally(100.0, 1_001.0, 0), sound(), "p99 of the slip is 1.00 ms"),
            (tally(100.0, 1_001.0, 0), Evidence { pacer: Pacer::Ordinary, ..sound() }, "cap_sys_nice"),
            (tally(60_000.0, 3_001.0, 0), sound(), "above 3.00 ms"),
            (tally(100.0, 10.0, 4), sound(), "4 of 3000 sends"),
            (fine(), Evidence { percentile, ..sound() }, "p99.95 needs 5990 requests, and 3000 were sent"),
            (fine(), Evidence { own_socket_drops: Ok(7), ..sound() }, "dropped 7 replies"),
            (fine(), Evidence { own_socket_drops: Err("no /proc".into()), ..sound() }, "no /proc"),
            (fine(), Evidence { overshoot_share: Some(0.021), ..sound() }, "overslept by 2.1 %"),
            (fine(), Evidence { endpoint_error: Some("refused".into()), ..sound() }, "did not answer: refused"),
            (fine(), Evidence { interrupted: true, ..sound() }, "interrupted"),
        ] {
            let (verdict, reasons) = judge(&tally, &evidence);
            assert_eq!(verdict, Verdict::Invalid, "{expected}");
            assert!(reasons.len() == 1 && reasons[0].contains(expected), "{expected}: {reasons:?}");
        }
    }
}
