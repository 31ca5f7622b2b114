//! One simulation: a policy with its sizes and budgets at a load.

use super::contender::Contender;
use super::progress::Progress;
use crate::sched::PolicyName;
use crate::sched::auto::Decision;
use crate::sim::{Fit, Offer, Overheads, Setup, Tally, simulate};
use crate::time::Nanos;
use crate::workload::Workload;

/// What all simulations of a report share.
#[derive(Clone, Debug)]
pub(in crate::command) struct Scene<'a> {
    pub(in crate::command) workload: &'a Workload,
    pub(in crate::command) workers: usize,
    pub(in crate::command) seed: u64,
    pub(in crate::command) requests: u64,
    pub(in crate::command) flows: u16,
    pub(in crate::command) overheads: Overheads,
    /// As fitted where it is not given.
    pub(in crate::command) slice: Option<Nanos>,
    /// As in the server where it is not given.
    pub(in crate::command) thief_threshold: Option<Nanos>,
    pub(in crate::command) checkpoint_step: Nanos,
    pub(in crate::command) deadline: Option<Nanos>,
    /// Whether policies that can use a request's class know it; `reserve` always does.
    pub(in crate::command) classified: bool,
}

/// What came of one.
#[derive(Clone, Debug)]
pub(in crate::command) struct Outcome {
    pub(in crate::command) contender: Contender,
    pub(in crate::command) load: f64,
    /// Sizes and budgets, in words.
    pub(in crate::command) chosen: String,
    /// Of its groups, where it has any.
    pub(in crate::command) sizes: Option<Vec<usize>>,
    pub(in crate::command) tally: Tally,
}

impl<'a> Scene<'a> {
    /// A scene with nothing chosen.
    pub(in crate::command) fn new(
        workload: &'a Workload,
        workers: usize,
        overheads: Overheads,
        seed: u64,
        requests: u64,
    ) -> Scene<'a> {
        Scene {
            workload,
            workers,
            seed,
            requests,
            flows: Scene::flows_for(workers),
            overheads,
            slice: None,
            thief_threshold: None,
            checkpoint_step: Nanos::from_micros(1),
            deadline: None,
            classified: false,
        }
    }

    /// As many source ports as `loadgen` would take.
    pub(in crate::command) fn flows_for(workers: usize) -> u16 {
        (32 * workers).clamp(256, 32_768) as u16
    }

    /// The slice, whoever chose it.
    pub(in crate::command) fn slice_or_fitted(&self) -> Nanos {
        self.fit(1.0).slice
    }

    /// Requests before those that are measured.
    pub(in crate::command) fn warmup(&self) -> u64 {
        self.requests / 10
    }

    /// The sizes with which `contender` begins if nobody has chosen any.
    pub(in crate::command) fn default_sizes(&self, contender: Contender, load: f64) -> Option<Vec<usize>> {
        match contender {
            Contender::Server(policy) if contender.has_sizes() => Some(self.fit(load).policy(policy).sizes()),
            _ => None,
        }
    }

    /// Simulates `contender` at `load`, in pools of `sizes` if it has any.
    pub(in crate::command) fn run(
        &self,
        contender: Contender,
        load: f64,
        sizes: Option<&[usize]>,
        progress: &Progress,
    ) -> Outcome {
        let offer = Offer {
            workload: self.workload,
            rate: self.workload.rate_at(load, self.workers, 1),
            flows: self.flows,
            seed: self.seed,
            deadline: self.deadline.unwrap_or(Nanos::MAX),
            warmup: self.warmup(),
            requests: self.requests,
        };
        let incoming = progress.watch(offer.incoming(self.workers));
        let (chosen, sizes, tally) = match contender {
            Contender::Reference(reference) => (String::new(), None, reference.simulate(self.workers, incoming)),
            Contender::Server(policy) => {
                let mut fit = self.fit(load);
                fit.sizes = sizes.map(<[usize]>::to_vec);
                let fitted = fit.policy(policy);
                let used = contender.has_sizes().then(|| fitted.sizes());
                let setup = Setup {
                    classified: self.classified || policy == PolicyName::Reserve,
                    checkpoint_step: self.checkpoint_step,
                    ..Setup::with_overheads(fitted.policy, self.overheads)
                };
                (fitted.chosen, used, simulate(&setup, incoming))
            }
        };
        Outcome { contender, load, chosen, sizes, tally }
    }

    /// The slice that `auto` would choose.
    pub(in crate::command) fn budget(&self) -> Nanos {
        self.fit(1.0).budget()
    }

    /// What `auto` would decide, and why.
    pub(in crate::command) fn decision(&self) -> Decision {
        self.fit(1.0).decision()
    }

    fn fit(&self, load: f64) -> Fit {
        let mut fit = Fit::new(self.workload, self.workers, load);
        fit.slice = self.slice.unwrap_or(fit.slice);
        fit.thief_threshold = self.thief_threshold;
        fit.yield_cost = self.overheads.yield_.max(Nanos::new(1));
        fit
    }
}
