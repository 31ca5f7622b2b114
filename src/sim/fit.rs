//! Policies fitted to a workload: sizes and budgets as a server would choose them, by the same estimators.

use crate::sched::auto::{Auto, Choice, Decision};
use crate::sched::estimate::{Groups, ServiceTimes, reserved_workers, softly_reserved_workers};
use crate::sched::{Global, Isolated, Kind, Policy, PolicyName, Pools, Reserve, Scale, Steal, Topology};
use crate::time::Nanos;
use crate::wire::CLASSES;
use crate::workload::{Cost, Workload};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// What a policy is fitted to.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Workers, at least one.
    pub workers: usize,
    /// Mean number of workers that the requests keep busy.
    pub offered: f64,
    /// CPU time that a request may use before what is left of it may move.
    pub slice: Nanos,
    /// Sizes of the pools of `pools`, of the groups of `reserve`, and of the reserved workers of `hybrid` and the rest,
    /// where somebody has chosen them.
    pub sizes: Option<Vec<usize>>,
    /// How long a worker must have been in one job before others receive from its socket; as in the server where nobody
    /// has chosen it.
    pub thief_threshold: Option<Nanos>,
    /// What stepping aside costs.
    pub yield_cost: Nanos,
    /// Service times of all classes together.
    pub times: ServiceTimes,
    /// Of each class: how many requests, and the CPU time of all.
    pub by_class: [(u64, Nanos); CLASSES],
}

/// A policy with its sizes and budgets, and the same in words.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The policy.
    pub policy: Policy,
    /// What was chosen, as settings: `front=3,heavy=11, slice 5us`; empty where there was nothing to choose.
    pub chosen: String,
    reserved: Option<usize>,
}

impl Fitted {
    /// Workers of each pool or group; the reserved ones and the rest.
    pub fn sizes(&self) -> Vec<usize> {
        let topology = self.policy.topology();
        if let Some(reserved) = self.reserved {
            return vec![reserved, topology.workers() - reserved];
        }
        (0..topology.pools()).map(|pool| topology.members(pool).len()).collect()
    }
}

/// Requests that stand for a workload, where its costs vary.
const REQUESTS: f64 = 1e6;
/// Costs that are drawn of each class for them.
const DRAWS: u64 = 20_000;
/// `auto` decides when so many measurements in a row agree; asked so often it has.
const DECISIONS: usize = 10;

impl Fit {
    /// `workload` at the share `load` of so many workers. The slice is ten of the smallest class's cost, within what a
    /// server takes.
    pub fn new(workload: &Workload, workers: usize, load: f64) -> Fit {
        let mut times: Vec<(Nanos, u64)> = Vec::new();
        let mut by_class = [(0, Nanos::ZERO); CLASSES];
        for (class, sums) in workload.classes().iter().zip(&mut by_class) {
            let requests = (class.share * REQUESTS).round().max(1.0) as u64;
            match class.cost {
                Cost::Fixed(cost) => times.push((cost, requests)),
                ref varied => {
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(0);
                    times.extend((0..DRAWS).map(|_| (varied.draw(&mut random), requests.div_ceil(DRAWS))));
                }
            }
            *sums = (requests, class.cost.mean().times(requests));
        }
        Fit::of(slice_of(workload.smallest_cost()), workers, load, ServiceTimes::new(times), by_class)
    }

    /// Requests of such classes and costs at the share `load` of so many workers, with the slice as above.
    ///
    /// # Panics
    /// If there is no request.
    pub fn to_requests(requests: impl Iterator<Item = (u8, Nanos)>, workers: usize, load: f64) -> Fit {
        let mut times: BTreeMap<Nanos, u64> = BTreeMap::new();
        let mut by_class = [(0, Nanos::ZERO); CLASSES];
        for (class, cost) in requests {
            *times.entry(cost).or_default() += 1;
            let (count, sum) = &mut by_class[usize::from(class)];
            (*count, *sum) = (*count + 1, sum.plus(cost));
        }
        let means = by_class.iter().filter(|(count, _)| *count > 0).map(|(count, sum)| Nanos::new(sum.get() / count));
        let slice = slice_of(means.min().expect("there is a request"));
        Fit::of(slice, workers, load, ServiceTimes::new(times), by_class)
    }

    fn of(slice: Nanos, workers: usize, load: f64, times: ServiceTimes, by_class: [(u64, Nanos); CLASSES]) -> Fit {
        let (offered, yield_cost) = (load * workers as f64, Nanos::new(100));
        Fit { workers, offered, slice, sizes: None, thief_threshold: None, yield_cost, times, by_class }
    }

    /// The policy called `name`.
    ///
    /// # Panics
    /// If the chosen sizes do not sum to the workers, or if `pools` is to have one worker.
    pub fn policy(&self, name: PolicyName) -> Fitted {
        let scale = Scale::new(1);
        let plain = |kind| self.fitted(kind, String::new());
        let steal = || match self.thief_threshold {
            Some(thief_threshold) => Kind::Steal(Steal { thief_threshold }),
            None => scale.steal(),
        };
        match name {
            PolicyName::Isolated => plain(Kind::Isolated(Isolated)),
            PolicyName::Global => plain(Kind::Global(Global)),
            PolicyName::Steal => plain(steal()),
            PolicyName::Shed => plain(scale.shed()),
            PolicyName::Pools => self.pools(),
            PolicyName::Reserve => self.reserve(),
            PolicyName::Hybrid => self.hybrid(self.slice),
            PolicyName::OnDemand => self.ondemand(self.slice),
            PolicyName::Auto => {
                let Decision { choice, reason } = self.decision();
                let mut fitted = match choice {
                    Choice::Steal => plain(steal()),
                    Choice::Global => plain(Kind::Global(Global)),
                    Choice::Hybrid { budget } => self.hybrid(budget),
                    Choice::OnDemand { budget } => self.ondemand(budget),
                };
                let choice = match choice {
                    Choice::Steal => "steal",
                    Choice::Global => "global",
                    Choice::Hybrid { .. } => "hybrid",
                    Choice::OnDemand { .. } => "ondemand",
                };
                let settings = if fitted.chosen.is_empty() { String::new() } else { format!(", {}", fitted.chosen) };
                fitted.chosen = format!("{choice}{settings}: {reason}");
                fitted
            }
        }
    }

    /// The budget that `auto` would choose for these service times; the slice where it would divide nothing.
    pub fn budget(&self) -> Nanos {
        match self.decision().choice {
            Choice::Steal | Choice::Global => self.slice,
            Choice::Hybrid { budget } | Choice::OnDemand { budget } => budget,
        }
    }

    /// What `auto` would decide for these service times, and why.
    pub fn decision(&self) -> Decision {
        let mut auto = Auto::new(self.yield_cost);
        for _ in 0..DECISIONS {
            auto.decide(&self.times);
        }
        auto.current()
    }

    fn pools(&self) -> Fitted {
        // As `loadgen compare` does it: what light requests need when all workers are busy.
        let default = || {
            let front = reserved_workers(&self.times, self.slice, self.workers as f64, self.workers);
            if self.workers > front { vec![front, self.workers - front] } else { vec![self.workers] }
        };
        let sizes = self.sizes.clone().unwrap_or_else(default);
        assert_eq!(sizes.iter().sum::<usize>(), self.workers, "the pools have all workers");
        let kind = Kind::Pools(Pools { slice: self.slice });
        let chosen = format!("pools {}, slice {}", joined(&sizes), self.slice);
        Fitted { policy: Policy::new(kind, &Topology::new(&sizes)), chosen, reserved: None }
    }

    fn reserve(&self) -> Fitted {
        let measured = Groups::by_demand(&self.by_class, self.workers, None);
        let mut groups = measured.unwrap_or_else(|| Groups::one(self.workers));
        if let Some(sizes) = self.sizes.as_ref().filter(|sizes| sizes.len() == groups.sizes.len()) {
            groups.sizes.clone_from(sizes);
        }
        let chosen = format!("groups {}", joined(&groups.sizes));
        self.fitted(Kind::Reserve(Reserve { groups }), chosen)
    }

    fn hybrid(&self, budget: Nanos) -> Fitted {
        let estimated = || softly_reserved_workers(&self.times, budget, self.offered, self.workers);
        let reserved = self.sizes.as_ref().map_or_else(estimated, |sizes| sizes[0]);
        let chosen = format!("reserved {reserved}, budget {budget}");
        Fitted { reserved: Some(reserved), ..self.fitted(Scale::new(1).hybrid(budget, reserved), chosen) }
    }

    fn ondemand(&self, budget: Nanos) -> Fitted {
        self.fitted(Scale::new(1).ondemand(budget), format!("budget {budget}"))
    }

    fn fitted(&self, kind: Kind, chosen: String) -> Fitted {
        Fitted { policy: Policy::new(kind, &Topology::new(&[self.workers])), chosen, reserved: None }
    }
}

/// Ten of the smallest class's mean cost, within what a server takes.
fn slice_of(smallest: Nanos) -> Nanos {
    smallest.times(10).clamp(Nanos::from_micros(1), Nanos::from_secs(1))
}

fn joined(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}
