//! One simulation: a policy with its sizes and budgets at a load.

use super::policy_spec::PolicySpec;
use super::progress::{Progress, watched};
use super::replayed::Replayed;
use crate::overheads::Overheads;
use crate::sched::auto::Decision;
use crate::sched::{Made, MaxWait, PolicyName, Sharing};
use crate::sim::{ArrivingRequest, Fit, OpenLoop, Replay, Setup, Tally, simulate};
use crate::stats::PRECISION;
use crate::time::Nanos;
use crate::workload::Workload;

/// The common conditions of all simulations of a report.
#[derive(Clone, Debug)]
pub(crate) struct Scenario<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) workers: usize,
    pub(crate) seed: u64,
    pub(crate) requests: u64,
    pub(crate) flows: u16,
    pub(crate) overheads: Overheads,
    /// The slice; `None` = fitted to the workload.
    pub(crate) slice: Option<Nanos>,
    /// The thief threshold; `None` = the server's.
    pub(crate) thief_threshold: Option<Nanos>,
    /// The sharing options; `None` = the server's.
    pub(crate) sharing: Option<Sharing>,
    pub(crate) checkpoint_step: Nanos,
    pub(crate) deadline: Option<Nanos>,
    /// How long requests may wait.
    pub(crate) max_wait: MaxWait,
    /// Whether policies that can use a request's class may read it; `reserve` always may.
    pub(crate) classified: bool,
    /// The trace to replay, in place of drawn requests.
    pub(crate) replayed: Option<&'a Replayed>,
    /// The widest interval, upper over lower end, of a percentile that counts as known.
    pub(crate) precision: f64,
}

/// The result of one simulation.
#[derive(Clone, Debug)]
pub(crate) struct Simulation {
    pub(crate) spec: PolicySpec,
    pub(crate) load: f64,
    /// The sizes and budgets, in words.
    pub(crate) chosen: String,
    /// The sizes of the policy's groups; `None` if it has none.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) tally: Tally,
}

/// The most steps between checkpoints in one simulation, over all requests: a day of computing.
const STEPS_MAX: f64 = 1e11;
/// The most simulated seconds in one simulation. Simulated time ends at 1.8e10 seconds, and a server at ten times the
/// load that it can bear needs ten times as long.
const SECONDS_MAX: f64 = 1e9;

impl<'a> Scenario<'a> {
    /// Whether `spec` can be simulated at `load` in a bounded number of steps, before simulated time ends.
    ///
    /// # Errors
    /// A message that names the flags in question and what is allowed.
    pub(crate) fn check(&self, spec: PolicySpec, load: f64) -> Result<(), String> {
        let requests = (self.requests + self.warmup()) as f64;
        let work = requests * self.workload.mean().as_secs_f64();
        let step = spec.quantum().unwrap_or(self.checkpoint_step).min(self.checkpoint_step);
        let steps = work / step.as_secs_f64();
        if steps > STEPS_MAX {
            return Err(format!(
                "{requests:.0} requests of {} in the mean are {steps:.1e} steps of {step}, and one simulation takes at most \
                 {STEPS_MAX:.0e}: lower --requests, or raise --checkpoint, where there is one",
                self.workload.mean(),
            ));
        }
        let seconds = (work / self.workers as f64).max(requests / self.workload.rate_at(load, self.workers, 1));
        if seconds > SECONDS_MAX {
            return Err(format!(
                "{requests:.0} requests at load {load} last {seconds:.1e} simulated seconds, and one simulation at most \
                 {SECONDS_MAX:.0e}: lower --requests, or raise the load"
            ));
        }
        Ok(())
    }

    /// A scenario with defaults for all options.
    pub(crate) fn new(
        workload: &'a Workload,
        workers: usize,
        overheads: Overheads,
        seed: u64,
        requests: u64,
    ) -> Scenario<'a> {
        Scenario {
            workload,
            workers,
            seed,
            requests,
            flows: Scenario::flows_for(workers),
            overheads,
            slice: None,
            thief_threshold: None,
            sharing: None,
            checkpoint_step: Nanos::from_micros(1),
            deadline: None,
            max_wait: MaxWait::Off,
            classified: false,
            replayed: None,
            precision: PRECISION,
        }
    }

    /// The number of source ports that `loadgen` would use.
    pub(crate) fn flows_for(workers: usize) -> u16 {
        (32 * workers).clamp(256, 32_768) as u16
    }

    /// The slice, given or fitted.
    pub(crate) fn slice_or_fitted(&self) -> Nanos {
        self.fit(1.0).slice
    }

    /// The number of warm-up requests, before the measured ones.
    pub(crate) fn warmup(&self) -> u64 {
        self.replayed.map_or(self.requests / 10, |run| run.offered.requests.len() as u64 - self.requests)
    }

    /// The sizes with which `spec` starts if none are given.
    pub(crate) fn default_sizes(&self, spec: PolicySpec, load: f64) -> Option<Vec<usize>> {
        match spec {
            PolicySpec::Server(policy) if spec.has_sizes() => Some(self.fit(load).policy(policy).sizes()),
            _ => None,
        }
    }

    /// Simulates `spec` at `load`, in pools of `sizes` if it has any.
    pub(crate) fn run(
        &self,
        spec: PolicySpec,
        load: f64,
        sizes: Option<&[usize]>,
        progress: &dyn Progress,
    ) -> Simulation {
        let (chosen, sizes, tally) = match self.replay(sizes) {
            Some(replay) => {
                served(self.workers, spec, |policy| replay.server(policy), watched(replay.arrivals(), progress))
            }
            None => {
                let server = |policy| self.server(policy, load, sizes);
                served(self.workers, spec, server, watched(self.drawn(load), progress))
            }
        };
        let tally = tally.of_queue(load, self.overheads.per_request(), self.precision);
        Simulation { spec, load, chosen, sizes, tally }
    }

    /// Draws the requests at `load`.
    fn drawn(&self, load: f64) -> impl Iterator<Item = ArrivingRequest> + use<'a> {
        let offer = OpenLoop {
            workload: self.workload,
            rate: self.workload.rate_at(load, self.workers, 1),
            flows: self.flows,
            seed: self.seed,
            deadline: self.deadline.unwrap_or(Nanos::MAX),
            warmup: self.warmup(),
            requests: self.requests,
        };
        offer.arrivals(self.workers)
    }

    fn server(&self, policy: PolicyName, load: f64, sizes: Option<&[usize]>) -> (Made, Setup) {
        let fit = Fit { sizes: sizes.map(<[usize]>::to_vec), ..self.fit(load) };
        let fitted = fit.policy(policy);
        let setup = Setup {
            classified: self.classified || policy.entry().needs_class,
            checkpoint_step: self.checkpoint_step,
            ..Setup::with_overheads(fitted.policy().with_sharing(self.sharing.unwrap_or_default()), self.overheads)
        };
        (fitted, setup.with_max_wait(self.max_wait, &fit.times))
    }

    /// The replay of the trace; `None` without a trace.
    fn replay(&self, sizes: Option<&[usize]>) -> Option<Replay<'a>> {
        let mut replay = Replay::new(&self.replayed?.offered);
        self.choose(&mut replay.fit);
        replay.fit.sizes = sizes.map(<[usize]>::to_vec);
        replay.overheads = self.overheads;
        replay.checkpoint_step = self.checkpoint_step;
        replay.classified = self.classified;
        Some(replay)
    }

    /// The slice that `auto` would choose.
    pub(crate) fn budget(&self) -> Nanos {
        self.fit(1.0).budget()
    }

    /// The decision of `auto`, with its reason.
    pub(crate) fn decision(&self) -> Decision {
        self.fit(1.0).decision()
    }

    fn fit(&self, load: f64) -> Fit {
        let mut fit = match self.replayed {
            Some(run) => Replay::new(&run.offered).fit,
            None => Fit::new(self.workload, self.workers, load),
        };
        self.choose(&mut fit);
        fit
    }

    /// Puts the given options into `fit`.
    fn choose(&self, fit: &mut Fit) {
        fit.slice = self.slice.unwrap_or(fit.slice);
        fit.thief_threshold = self.thief_threshold;
        fit.yield_cost = self.overheads.yield_.max(Nanos::new(1));
        fit.classified = self.classified;
    }
}

/// Simulates `spec` with `incoming`: returns the options in words, the sizes of its groups, and the tally.
fn served(
    workers: usize,
    spec: PolicySpec,
    server: impl Fn(PolicyName) -> (Made, Setup),
    incoming: impl Iterator<Item = ArrivingRequest>,
) -> (String, Option<Vec<usize>>, Tally) {
    match spec {
        PolicySpec::Reference(reference) => (String::new(), None, reference.simulate(workers, incoming)),
        PolicySpec::Server(policy) => {
            let (fitted, setup) = server(policy);
            let sizes = spec.has_sizes().then(|| fitted.sizes());
            (fitted.chosen, sizes, simulate(&setup, incoming))
        }
    }
}
