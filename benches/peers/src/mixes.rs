//! The mixes of light and heavy requests that are offered.

use crate::offer::workload;
use anyhow::Result;
use forebay::overheads::Overheads;

/// Two kinds of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// As headings show it.
    pub(crate) name: &'static str,
    /// As `loadgen` draws it.
    pub(crate) workload: &'static str,
    /// Cost of a light request.
    pub(crate) light_us: f64,
    /// Cost of a heavy one.
    pub(crate) heavy_us: f64,
}

const EXTREME: Mix =
    Mix { name: "99.5/0.5 % of 0.5 us/500 us", workload: "extreme-bimodal", light_us: 0.5, heavy_us: 500.0 };
const ONE_IN_HUNDRED: Mix =
    Mix { name: "99/1 % of 10 us/1 ms", workload: "bimodal:0.99:10us:1ms", light_us: 10.0, heavy_us: 1_000.0 };
const ONE_IN_TWO_HUNDRED: Mix =
    Mix { name: "99.5/0.5 % of 20 us/10 ms", workload: "bimodal:0.995:20us:10ms", light_us: 20.0, heavy_us: 10_000.0 };

/// What real cores are offered.
pub(crate) const REAL: [Mix; 2] = [ONE_IN_HUNDRED, ONE_IN_TWO_HUNDRED];

/// A mix on emulated cores.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emulated {
    /// What is offered.
    pub(crate) mix: Mix,
    /// Duration of an emulated microsecond, in microseconds: large enough that a thread's wake-up is little beside a light
    /// request, and a sleep to the next checkpoint is no shorter than the timer's slack.
    pub(crate) time_scale: u64,
    /// Factor of the counted time, for some hundred heavy requests.
    pub(crate) longer: u64,
}

/// What emulated cores are offered.
pub(crate) const EMULATED: [Emulated; 3] = [
    Emulated { mix: EXTREME, time_scale: 1_000, longer: 1 },
    Emulated { mix: ONE_IN_HUNDRED, time_scale: 200, longer: 1 },
    Emulated { mix: ONE_IN_TWO_HUNDRED, time_scale: 100, longer: 3 },
];

/// The mix of a quick run: some heavy requests come within a third of a second.
pub(crate) const EMULATED_IN_A_HURRY: [Emulated; 1] = [Emulated { mix: EXTREME, time_scale: 200, longer: 1 }];

/// Prices of the steps beside the work on emulated cores, Forebay's and its rivals' alike.
pub(crate) const OVERHEADS: Overheads = Overheads::STOCK;

impl Mix {
    /// The share of the work, receives and sends included, that is light.
    ///
    /// # Errors
    /// If there is no such workload.
    pub(crate) fn light_share(&self) -> Result<f64> {
        let (mean, beside) =
            (workload(self.workload)?.mean().as_secs_f64() * 1e6, OVERHEADS.per_request().as_secs_f64() * 1e6);
        let lights = (self.heavy_us - mean) / (self.heavy_us - self.light_us);
        Ok(lights * (self.light_us + beside) / (mean + beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do the costs beside the workloads say what these draw? Then the shares are theirs: 99.5 % of 3.18 us beside .5 % of
    // 502.68 us, and so on.
    #[test]
    fn the_light_share_is_that_of_the_workload() {
        let shares = EMULATED.map(|Emulated { mix, .. }| mix.light_share().expect("a workload"));
        for (share, expected) in shares.into_iter().zip([0.557, 0.556, 0.310]) {
            assert!((share - expected).abs() < 0.001, "{shares:?}");
        }
    }
}
