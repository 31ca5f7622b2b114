//! The mixes of light and heavy requests. `loadgen` offers them, with its schedule, sender,
//! receiver and verdict.

use crate::results::Figure;
use anyhow::{Context, Result, anyhow};
use forebay::inside::emulation::overheads::Overheads;
use forebay::time::Nanos;
use loadgen::compare::server_process::ServerProcess;
use loadgen::endpoint::Endpoint;
use loadgen::interrupt::Interrupt;
use loadgen::lab::workload::{Shape, Workload};
use loadgen::plan::{Plan, Retrying};
use loadgen::progress::Progress;
use loadgen::report::validity::Validity;
use loadgen::run;

/// The cores that burn a mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Emulated cores, which sleep. All peers are charged the same prices.
    Emulated(u16),
    Real(u16),
}

/// A mix of light and heavy requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mix {
    /// The name in the table: the costs of a light and of a heavy request.
    name: &'static str,
    /// The workload from which `loadgen` draws.
    workload: &'static str,
    light_us: f64,
    pub(crate) heavy_us: f64,
    /// How long an emulated microsecond takes, in microseconds. The scale is so large that waking a
    /// thread takes little time compared with a light request. Also, a sleep to the next checkpoint
    /// must not be shorter than the timer's slack.
    pub(crate) time_scale: u64,
    /// The counted time is longer by this factor, so that it has some hundred heavy requests.
    longer: u64,
}

const EXTREME: Mix = Mix {
    name: "0.5us/500us",
    workload: "extreme-bimodal",
    light_us: 0.5,
    heavy_us: 500.0,
    time_scale: 1_000,
    longer: 1,
};

pub(crate) const MIXES: [Mix; 3] = [
    EXTREME,
    Mix {
        name: "10us/1ms",
        workload: "bimodal:0.99:10us:1ms",
        light_us: 10.0,
        heavy_us: 1_000.0,
        time_scale: 200,
        ..EXTREME
    },
    Mix {
        name: "20us/10ms",
        workload: "bimodal:0.995:20us:10ms",
        light_us: 20.0,
        heavy_us: 10_000.0,
        time_scale: 100,
        longer: 3,
    },
];

/// The mix of a quick run, with some heavy requests in a third of a second.
pub(crate) const IN_A_HURRY: [Mix; 1] = [Mix { time_scale: 200, ..EXTREME }];

/// The charges for steps beside the work on emulated cores, the same for Forebay and its rivals.
pub(crate) const OVERHEADS: Overheads = Overheads::STOCK;

/// The load on emulated cores: a share of the capacity, with receives and sends.
const LOAD: f64 = 0.8;
/// The load on real cores: a share by the costs alone, because the kernel needs the other half.
const LOAD_OF_REAL: f64 = 0.5;
/// A request without a reply counts as unanswered after this time. It is longer than the queue of
/// any peer that can serve this load.
const TIMEOUT: Nanos = Nanos::from_secs(8);

impl Mix {
    /// The share of light requests in the work, with receives and sends.
    ///
    /// # Errors
    /// If the workload does not exist.
    pub(crate) fn light_share(&self) -> Result<f64> {
        let (mean, beside) = (self.requests()?.mean().as_secs_f64() * 1e6, OVERHEADS.per_request().as_secs_f64() * 1e6);
        let lights = (self.heavy_us - mean) / (self.heavy_us - self.light_us);
        Ok(lights * (self.light_us + beside) / (mean + beside))
    }

    fn requests(&self) -> Result<Workload> {
        self.workload.parse().map_err(|error| anyhow!("{}: {error}", self.workload))
    }

    /// Offers the mix for this many seconds, or for a third of one. If the server shows its
    /// counters, the verdict uses them. Figures are multiples of a class's own cost.
    ///
    /// # Errors
    /// If the system refuses, or the server is gone.
    pub(crate) fn offer(
        &self,
        server: &ServerProcess,
        place: Place,
        seconds: Option<u64>,
        seed: u64,
    ) -> Result<Vec<Figure>> {
        let plan = self.plan(server, place, seconds, seed)?;
        let endpoint = (server.admin != "none").then(|| Endpoint::new(&server.admin));
        let endpoint = endpoint.transpose().map_err(|failure| anyhow!("{failure}"))?;
        let progress = Progress::new(self.name, &plan, true);
        let outcome = run::execute(&plan, endpoint.as_ref(), &Interrupt::default(), progress);
        let report = outcome.map_err(|failure| anyhow!("{failure}"))?.report;
        let is_valid = report.verdict == Validity::Valid;
        if !is_valid {
            eprintln!("{}: {}: {}", self.name, report.verdict, report.reasons.join("; "));
        }
        let class = |name| report.result.latency_us.of(name).with_context(|| format!("no class {name}"));
        let (light, heavy) = (class("short")?, class("long")?);
        let costs = |us: Option<f64>, cost_us: f64| us.map(|us| us / (cost_us * plan.time_scale as f64));
        let figures = [
            ("light p50", costs(light.p50, self.light_us)),
            ("light p90", costs(light.p90, self.light_us)),
            ("light p99", costs(light.p99, self.light_us)),
            ("light p99.9", costs(light.p99_9, self.light_us)),
            ("heavy p50", costs(heavy.p50, self.heavy_us)),
            ("valid", Some(f64::from(u8::from(is_valid)))),
            ("unanswered", Some((report.sent - report.result.fates.answered) as f64)),
        ];
        Ok(figures.map(|(name, value)| (format!("{} {name}", self.name), value)).into())
    }

    fn plan(&self, server: &ServerProcess, place: Place, seconds: Option<u64>, seed: u64) -> Result<Plan> {
        let workload = self.requests()?;
        let (cores, time_scale, load, overheads, workload) = match place {
            Place::Emulated(cores) => {
                (cores, self.time_scale, LOAD, OVERHEADS, workload.with_time_beside(OVERHEADS.per_request()))
            }
            Place::Real(cores) => (cores, 1, LOAD_OF_REAL, Overheads::NONE, workload),
        };
        let ms = Nanos::from_millis;
        let (warmup, duration) = seconds.map_or((ms(50), ms(300)), |seconds| (ms(1_500), Nanos::from_secs(seconds)));
        Ok(Plan {
            target: server.udp,
            profile: loadgen::profile::Chosen::default(),
            sources: None,
            rate: workload.rate_at(load, cores.into(), time_scale),
            workload,
            then: None,
            arrivals: Shape::default(),
            replay: None,
            until_known: None,
            finds_warmup: false,
            start_at: None,
            duration: duration.times(self.longer),
            warmup,
            flows: 32 * cores,
            threads: 1,
            time_scale,
            timeout: Some(TIMEOUT),
            retrying: Retrying::default(),
            percentile: None,
            is_round: false,
            seed,
            deadline_us: 0,
            workers: Some(cores),
            server_apart: matches!(place, Place::Real(_)),
            overheads,
            // Other servers do not report the times of their cores.
            by_core_time: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Do the costs in the table match the workloads? Then the shares match, too: 99.5 % of requests
    // take 3.18 us, .5 % take 502.68 us, and so on.
    #[test]
    fn the_light_share_is_that_of_the_workload() {
        let shares = MIXES.map(|mix| mix.light_share().expect("a workload"));
        for (share, expected) in shares.into_iter().zip([0.557, 0.556, 0.310]) {
            assert!((share - expected).abs() < 0.001, "{shares:?}");
        }
    }
}
