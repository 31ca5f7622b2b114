//! Conditions of a simulation, and the run of one policy at one load.

use super::policy_spec::PolicySpec;
use super::replayed::Replayed;
use super::simulation::Simulation;
use crate::lab::sim::{ArrivingRequest, Fit, Follows, OpenLoop, Replay, Setup, Tally, simulate_into};
use crate::lab::workload::{Shape, Workload};
use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::sched::overload::WaitLimits;
use forebay::inside::sched::{Made, MaxWait, Objective, PolicyName, Tuning, grouping};
use forebay::time::Nanos;
use indicatif::ProgressBar;
use std::cell::RefCell;

/// The conditions that all simulations of a report share.
#[derive(Clone, Debug)]
pub(crate) struct Scenario<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) workers: usize,
    /// Groups of the workers; `None` = as many as a server would form.
    pub(crate) groups: Option<usize>,
    pub(crate) seed: u64,
    pub(crate) requests: u64,
    pub(crate) flows: u16,
    pub(crate) overheads: Overheads,
    /// The slice; `None` = fitted to the workload.
    pub(crate) slice: Option<Nanos>,
    /// The sizes of pools, for policies that have pools; `None` = fitted to the workload.
    pub(crate) sizes: Option<Vec<usize>>,
    pub(crate) checkpoint_step: Nanos,
    /// The least cost of requests without a checkpoint.
    pub(crate) uninterrupted_from: Nanos,
    pub(crate) deadline: Option<Nanos>,
    /// How long requests may wait.
    pub(crate) max_wait: MaxWait,
    /// Whether the server has a gate.
    pub(crate) gate: bool,
    /// When all workers stand still, and for how long, in the order of time.
    pub(crate) pauses: Vec<(Nanos, Nanos)>,
    /// Whether policies that can use a request's class may read it.
    pub(crate) classified: bool,
    /// What `auto` optimises.
    pub(crate) objective: Objective,
    /// The trace to replay instead of drawn requests.
    pub(crate) replayed: Option<&'a Replayed>,
    /// Recorded requests in their order, instead of drawn ones. Their times are stretched, so that
    /// they give the load.
    pub(crate) stretched: Option<&'a Replayed>,
    /// How drawn requests follow one another.
    pub(crate) shape: Shape,
    /// Counts the simulated requests of all threads, and names the current simulation, as `pools on
    /// 14 workers`. Of several at once, it names the one that started last.
    pub(crate) progress: ProgressBar,
}

/// The most steps between checkpoints, over all requests of a simulation: a day of computing.
const STEPS_MAX: f64 = 1e11;
/// Requests between two reports of progress, which are some milliseconds apart.
const REPORTED: u64 = 1 << 14;
/// The time between two decisions of a server. A measurement covers [`WINDOW`] of these times.
const SECOND: Nanos = Nanos::from_secs(1);
const WINDOW: u64 = 10;

/// The most simulated seconds of a simulation. The clock of virtual time ends at 1.8e10 seconds,
/// and a server at ten times its capacity needs ten times as long.
const SECONDS_MAX: f64 = 1e9;

/// The most requests that one simulation may measure, with this mean cost and this step between
/// checkpoints.
pub(crate) fn most_requests(mean: Nanos, step: Nanos) -> u64 {
    let steps = mean.as_secs_f64() / step.as_secs_f64();
    // A tenth is added for the warm-up, and another tenth as a reserve.
    (STEPS_MAX / 1.2 / steps).min(1e18) as u64
}

impl<'a> Scenario<'a> {
    /// Checks that a simulation at `load` has a bounded number of steps, and ends
    /// before simulated time does.
    ///
    /// # Errors
    /// A message that names the flags in question and what is allowed.
    pub(crate) fn check(&self, load: f64) -> Result<(), String> {
        let requests = (self.requests + self.warmup()) as f64;
        let work = requests * self.workload.mean().as_secs_f64();
        let step = self.checkpoint_step;
        let steps = work / step.as_secs_f64();
        if steps > STEPS_MAX {
            return Err(format!(
                "{requests:.0} requests of {} in the mean are {steps:.1e} steps of {step}, and one simulation takes at most \
                 {STEPS_MAX:.0e}: lower --requests, or raise --checkpoint",
                self.workload.mean(),
            ));
        }
        let seconds = (work / self.workers as f64).max(requests / self.rate(load));
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
            groups: None,
            seed,
            requests,
            flows: Scenario::flows_for(workers),
            overheads,
            slice: None,
            sizes: None,
            checkpoint_step: Nanos::from_micros(1),
            uninterrupted_from: Nanos::MAX,
            deadline: None,
            max_wait: MaxWait::Off,
            gate: false,
            pauses: Vec::new(),
            classified: false,
            objective: Objective::default(),
            replayed: None,
            stretched: None,
            shape: Shape::default(),
            progress: ProgressBar::hidden(),
        }
    }

    /// The number of source ports that `loadgen` would use.
    pub(crate) fn flows_for(workers: usize) -> u16 {
        (32 * workers).clamp(256, 32_768) as u16
    }

    /// Requests per second at `load`.
    pub(crate) fn rate(&self, load: f64) -> f64 {
        self.workload.rate_at(load, self.workers, 1)
    }

    /// The number of warm-up requests, before the measured ones.
    pub(crate) fn warmup(&self) -> u64 {
        self.replayed.map_or(self.requests / 10, |run| run.offered.requests.len() as u64 - self.requests)
    }

    /// The pool sizes with which `spec` starts, if the user gives none.
    pub(crate) fn default_sizes(&self, spec: PolicySpec, load: f64) -> Option<Vec<usize>> {
        match spec {
            PolicySpec::Server(policy) if spec.has_pools() => Some(self.fit(load).policy(policy).sizes()),
            _ => None,
        }
    }

    /// Simulates `spec` at `load`.
    pub(crate) fn run(&self, spec: PolicySpec, load: f64) -> Simulation {
        let (warmup, measured) = (self.warmup(), self.requests);
        let incoming = self.incoming(load, warmup, measured);
        Simulation { measured, ..self.run_on(spec, load, warmup, incoming, &RefCell::default()) }
    }

    /// The requests at `load`. First come `warmup` requests, then `most` requests that are
    /// measured.
    pub(super) fn incoming(&self, load: f64, warmup: u64, most: u64) -> Box<dyn Iterator<Item = ArrivingRequest> + 'a> {
        let deadline = self.deadline.unwrap_or(Nanos::MAX);
        let offer = OpenLoop {
            workload: self.workload,
            rate: self.rate(load),
            flows: self.flows,
            seed: self.seed,
            deadline,
            warmup,
            requests: most,
        };
        match (self.replayed, self.stretched) {
            (Some(run), _) => {
                Box::new(run.offered.arrivals().map(move |request| ArrivingRequest { deadline, ..request }))
            }
            (_, Some(run)) => Box::new(run.stretched(offer.rate, self.workers)),
            _ => Box::new(offer.shaped(self.shape.clone(), self.workers)),
        }
    }

    /// Simulates `spec` with `incoming` and counts the requests in `tally`. The first `warmup`
    /// requests are not measured. Together the requests make up `load`.
    pub(super) fn run_on(
        &self,
        spec: PolicySpec,
        load: f64,
        warmup: u64,
        incoming: impl Iterator<Item = ArrivingRequest>,
        tally: &RefCell<Tally>,
    ) -> Simulation {
        let mut taken = 0_u64;
        let incoming = incoming.inspect(|_| {
            taken += 1;
            if taken.is_multiple_of(REPORTED) {
                self.progress.inc(REPORTED);
            }
        });
        let (mut chosen, mut unstable_from) = (String::new(), None);
        match spec {
            PolicySpec::Reference(reference) => {
                reference.simulate_into(self.workers, incoming, tally);
                if self.overheads != Overheads::NONE {
                    "free of --overheads".clone_into(&mut chosen);
                }
            }
            PolicySpec::Server(policy) => {
                let (made, setup, fit) = self.adapting(policy, load, warmup);
                unstable_from = fit.unstable_from(&made);
                chosen = made.chosen;
                simulate_into(&setup, incoming, tally);
            }
        }
        // At its own stability bound, a pool is as busy as all workers are at a load of 1.
        let busy = load / unstable_from.unwrap_or(1.0);
        let tally = tally.take().of_queue(busy, self.overheads.per_request());
        let (workers, sizes) = (self.workers, self.sizes.clone());
        let (measured, verdict) = (0, None);
        Simulation { spec, workers, sizes, load, chosen, unstable_from, tally, measured, verdict }
    }

    /// A server under `policy`. If the policy adapts, the server follows its measurements. After a
    /// warm-up as long as the measured window, it starts without measurements. In a shorter run, it
    /// starts as if it had already measured these requests.
    fn adapting(&self, policy: PolicyName, load: f64, warmup: u64) -> (Made, Setup, Fit) {
        let (made, setup, fit) = self.server(policy, load);
        if !policy.entry().adapts {
            return (made, setup, fit);
        }
        let (time_scale, warmup) = match self.replayed {
            Some(Replayed { offered, .. }) => {
                (offered.time_scale, (offered.warmup.get() / offered.time_scale) as f64 / 1e9)
            }
            None => (1, warmup as f64 / self.rate(load)),
        };
        let every = Nanos::new(SECOND.get() / time_scale);
        let known = warmup < every.times(WINDOW).as_secs_f64();
        let waits = if known { setup.waits } else { WaitLimits::unmeasured(self.max_wait) };
        let mut adaptation = fit.adaptation(policy, known);
        adaptation.limits = waits;
        let made = Made { chosen: adaptation.made.chosen.clone(), ..made };
        let policy = adaptation.made.policy.clone();
        let follows = Some(Follows { adaptation, every });
        (made, Setup { policy, waits, follows, ..setup }, fit)
    }

    /// The load from which on the pools of `spec` cannot keep up. `None` if there is no such bound
    /// below the whole capacity.
    pub(super) fn unstable_from(&self, spec: PolicySpec, load: f64) -> Option<f64> {
        match spec {
            PolicySpec::Server(policy) => {
                let (made, _, fit) = self.server(policy, load);
                fit.unstable_from(&made)
            }
            PolicySpec::Reference(_) => None,
        }
    }

    /// The policy made for `load`, a server that follows it, and the fit for both.
    fn server(&self, policy: PolicyName, load: f64) -> (Made, Setup, Fit) {
        let entry = policy.entry();
        let groups = match entry.may_group() {
            true => grouping::sizes(self.workers, self.groups.unwrap_or(grouping::groups_of(self.workers, None))),
            false => vec![self.workers],
        };
        let fit = self.fit(load);
        let tuning = Tuning {
            sizes: self.sizes.clone().filter(|_| entry.has_pools()),
            workers: groups[0],
            groups: groups.len(),
            max_wait: self.max_wait,
            beside: self.overheads.per_request(),
            ..fit.tuning
        };
        let fit = Fit { offered: fit.offered * (groups[0] as f64 / self.workers as f64), tuning, ..fit };
        let (made, setup) = fit.server(policy, self.overheads);
        let &Scenario { checkpoint_step, uninterrupted_from, .. } = self;
        let pauses = self.pauses.clone();
        let gate = self.gate.then(|| self.replayed.map_or(1, |run| run.offered.time_scale));
        let mut setup = Setup { groups, checkpoint_step, uninterrupted_from, pauses, gate, ..setup };
        if let Some(run) = self.replayed {
            setup.rest = run.offered.rest(setup.rest);
        }
        let setup = setup.with_max_wait(self.max_wait, &fit.times, self.classified.then_some(&fit.of_class));
        (made, setup, fit)
    }

    /// The fit at `load`: a given or fitted slice, and the measurements that a server would have.
    pub(crate) fn fit(&self, load: f64) -> Fit {
        let fit = match self.replayed {
            Some(run) => run.offered.fit(),
            None => Fit::new(self.workload, self.workers, load),
        };
        let tuning = Tuning {
            budget: self.slice.unwrap_or(fit.tuning.budget),
            classified: self.classified,
            objective: self.objective,
            ..fit.tuning
        };
        Fit { tuning, ..fit }.knowing(&self.overheads)
    }
}
