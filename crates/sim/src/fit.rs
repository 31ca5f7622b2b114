//! Fits a policy to a workload: chooses pool sizes and slices by the server's own estimators.

use super::Setup;
use super::stability::{share_out, unstable_from};
use crate::workload::{Cost, Workload};
use forebay_base::fate::CLASSES;
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_sched::auto::{Auto, Decision};
use forebay_sched::estimate::{ServiceTimes, TimesOfClass};
use forebay_sched::{Adaptation, Made, Measured, PolicyName, Tuning};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeMap;

/// A workload and a load, in the form of a server's measurements. Policies are made from it.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Settings of the user, and defaults that follow from the workload. The other fields stand for
    /// measurements.
    pub tuning: Tuning,
    /// The mean number of busy workers. It includes the time of a request beside its cost.
    pub offered: f64,
    /// Service times of all classes together.
    pub times: ServiceTimes,
    /// Service times of each class.
    pub of_class: TimesOfClass,
    /// For each class, the number of requests and their total cost.
    pub by_class: [(u64, Nanos); CLASSES],
    /// The time that each request takes of a worker beside its cost: receiving it and sending the
    /// reply.
    pub beside: Nanos,
}

/// The number of requests that represents a workload.
const REQUESTS: f64 = 1e6;
/// Costs drawn for each class whose costs vary.
const DRAWS: u64 = 20_000;

impl Fit {
    /// A fit to `workload` at the load `load`, a share of the capacity of `workers` workers. The
    /// load includes the time of requests beside their cost. The slice is ten times the smallest
    /// class's cost, within a server's limits.
    pub fn new(workload: &Workload, workers: usize, load: f64) -> Fit {
        let mut times: [Vec<(Nanos, u64)>; CLASSES] = Default::default();
        let mut by_class = [(0, Nanos::ZERO); CLASSES];
        for ((class, sums), times) in workload.classes().iter().zip(&mut by_class).zip(&mut times) {
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
        let slice = slice_of(workload.smallest_cost());
        Fit::of(slice, workers, load, times, by_class, workload.time_beside())
    }

    /// A fit to these requests, given by class and cost, at the share `load` of the workers'
    /// capacity. Each request takes `beside` more than its cost. The slice is as in [`Fit::new`].
    ///
    /// # Panics
    /// If there is no request.
    pub fn to_requests(requests: impl Iterator<Item = (u8, Nanos)>, workers: usize, load: f64, beside: Nanos) -> Fit {
        let mut times: [BTreeMap<Nanos, u64>; CLASSES] = Default::default();
        let mut by_class = [(0, Nanos::ZERO); CLASSES];
        for (class, cost) in requests {
            let class = usize::from(class);
            *times[class].entry(cost).or_default() += 1;
            let (count, sum) = &mut by_class[class];
            (*count, *sum) = (*count + 1, sum.plus(cost));
        }
        let means = by_class.iter().filter(|(count, _)| *count > 0).map(|(count, sum)| Nanos::new(sum.get() / count));
        let slice = slice_of(means.min().expect("there is a request"));
        Fit::of(slice, workers, load, times, by_class, beside)
    }

    fn of<T: IntoIterator<Item = (Nanos, u64)>>(
        slice: Nanos,
        workers: usize,
        load: f64,
        times: [T; CLASSES],
        by_class: [(u64, Nanos); CLASSES],
        beside: Nanos,
    ) -> Fit {
        let of_class = times.map(ServiceTimes::new);
        Fit {
            tuning: Tuning::new(workers, slice),
            offered: load * workers as f64,
            times: ServiceTimes::new(of_class.iter().flat_map(|times| times.bins.iter().copied())),
            of_class,
            by_class,
            beside,
        }
    }

    /// The policy called `name`, with the sizes and budgets that were chosen.
    ///
    /// # Panics
    /// If the chosen sizes do not sum to the workers.
    pub fn policy(&self, name: PolicyName) -> Made {
        let tuning = self.tuning();
        if !name.entry().has_pools() {
            return name.entry().make(&tuning);
        }
        let fitted = || match tuning.workers {
            1 => vec![1],
            workers => share_out(&self.demands(2), workers, self.offered),
        };
        let sizes = Some(tuning.sizes.clone().unwrap_or_else(fitted));
        let made = name.entry().make(&Tuning { sizes, ..tuning });
        let unstable = match self.unstable_from(&made) {
            Some(bound) if bound < 1.0 => {
                let holds = self.offered < bound * self.tuning.workers as f64;
                // Rounded down, so that no load above the bound is shown as below it.
                let bound = (bound * 1e3).floor() / 1e3;
                if holds {
                    format!(", unstable from a load of {bound:.3} on")
                } else {
                    format!(", UNSTABLE AT THIS LOAD: from {bound:.3} on")
                }
            }
            _ => String::new(),
        };
        Made { chosen: made.chosen.clone() + &unstable, ..made }
    }

    /// The load, as a share of all workers' capacity, above which a pool of `made` cannot keep up.
    /// `None` without pools.
    pub fn unstable_from(&self, made: &Made) -> Option<f64> {
        made.name.entry().has_pools().then(|| unstable_from(&self.demands(made.sizes().len()), &made.sizes()))
    }

    /// The CPU time that requests need in each of `pools` pools, in any unit. If classes are known,
    /// each class has a pool of its own, and the last pool has all further classes. Otherwise a
    /// request uses one slice in each pool in turn, and stays in the last pool.
    fn demands(&self, pools: usize) -> Vec<f64> {
        if self.tuning.classified {
            let mut demands = vec![0.0; pools];
            for (class, (count, time)) in self.by_class.iter().enumerate() {
                demands[class.min(pools - 1)] += time.plus(self.beside.times(*count)).as_secs_f64();
            }
            return demands;
        }
        let times = ServiceTimes { beside: self.beside, ..self.times.clone() };
        let within = |pools: usize| times.share_within(self.tuning.budget.times(pools as u64));
        let before = |pool: usize| if pool < pools { within(pool) } else { 1.0 };
        (0..pools).map(|pool| before(pool + 1) - before(pool)).collect()
    }

    /// The policy called `name`, and a server with these overheads under that policy.
    ///
    /// # Panics
    /// As [`Fit::policy`].
    pub fn server(&self, name: PolicyName, overheads: Overheads) -> (Made, Setup) {
        let made = self.clone().knowing(&overheads).policy(name);
        let setup =
            Setup { classified: self.tuning.classified, ..Setup::with_overheads(made.policy.clone(), overheads) };
        (made, setup)
    }

    /// The settings and measurements from which policies are made.
    pub fn tuning(&self) -> Tuning {
        let of_class = self.tuning.classified.then(|| Box::new(self.of_class.clone()));
        let measured = Measured { of_class, ..Measured::new(self.times.clone(), self.beside, self.offered) };
        Tuning { measured: Some(measured), ..self.tuning.clone() }
    }

    /// The same fit with settings changed by `choose`.
    pub fn tuned(mut self, choose: impl FnOnce(&mut Tuning)) -> Fit {
        choose(&mut self.tuning);
        self
    }

    /// The same fit, and policies know the costs of the steps in `overheads`.
    pub fn knowing(self, overheads: &Overheads) -> Fit {
        self.tuned(|tuning| {
            tuning.yield_cost = overheads.yield_.max(Nanos::new(1));
            (tuning.look_cost, tuning.notice_cost) = (overheads.look, overheads.notice);
        })
    }

    /// The policy called `name` with its rule of adaptation, before the first measurement. With
    /// `known` it has measured for long.
    pub fn adaptation(&self, name: PolicyName, known: bool) -> Adaptation {
        let tuning = self.tuning();
        let measured = tuning.measured.clone().filter(|_| known);
        Adaptation::new(name, Tuning { measured, ..tuning }, false)
    }

    /// The budget that `auto` chooses for these service times. If `auto` lets no request give way,
    /// the configured slice.
    pub fn budget(&self) -> Nanos {
        self.decision().ladders.first_limit().unwrap_or(self.tuning.budget)
    }

    /// What `auto` would decide for these service times, and why.
    pub fn decision(&self) -> Decision {
        Auto::settled(&self.tuning()).current
    }
}

/// Ten times the smallest class's mean cost, within a server's limits.
pub fn slice_of(smallest: Nanos) -> Nanos {
    smallest.times(10).clamp(Nanos::from_micros(1), Nanos::from_secs(1))
}
