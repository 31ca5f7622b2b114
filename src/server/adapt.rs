//! Policies that follow the load: which policy a configuration begins with, and what becomes of it every second.

use crate::config::Config;
use crate::handler::checkpoint;
use crate::handler::context::{Limits, enter};
use crate::metrics::{self, Recent};
use crate::queue::Sharded;
use crate::sched::auto::{Auto, Choice};
use crate::sched::estimate::{Groups, ServiceTimes, softly_reserved_workers};
use crate::sched::{Global, Isolated, Kind, PolicyName, Pools, Reserve, Scale};
use crate::time::{Nanos, clock};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// The policy in force, and what may change it.
pub(super) struct Adaptation {
    /// What the workers follow.
    kind: Kind,
    scale: Scale,
    workers: usize,
    /// Reserved workers, if they are not to follow the demand.
    fixed_reserved: Option<usize>,
    /// The judge, under `auto`.
    auto: Option<Auto>,
    /// A number of reserved workers that was measured once: it comes into force when it is measured again.
    next_reserved: Option<usize>,
    /// The same for groups of classes.
    next_groups: Option<Groups>,
    reason: String,
}

impl Adaptation {
    /// What `config` begins with.
    pub(super) fn new(config: &Config) -> Adaptation {
        let scale = Scale::new(config.time_scale);
        let slice = config.slice_scaled();
        // Before anything is measured, the share that CONTRACTS gives the front pool.
        let reserved = config.reserved.unwrap_or(config.workers.div_ceil(5));
        let kind = match config.policy {
            PolicyName::Isolated => Kind::Isolated(Isolated),
            PolicyName::Global => Kind::Global(Global),
            PolicyName::Steal | PolicyName::Auto => scale.steal(),
            PolicyName::Shed => scale.shed(),
            PolicyName::Pools => Kind::Pools(Pools { slice }),
            PolicyName::Reserve => Kind::Reserve(Reserve { groups: Groups::one(config.workers) }),
            PolicyName::Hybrid => scale.hybrid(slice, reserved),
            PolicyName::OnDemand => scale.ondemand(slice),
        };
        let auto = (config.policy == PolicyName::Auto).then(|| Auto::new(yield_cost()));
        let reason =
            if config.reserved.is_some() { "the number was given" } else { "nothing has been measured yet" }.to_owned();
        let (workers, fixed_reserved) = (config.workers, config.reserved);
        Adaptation { kind, scale, workers, fixed_reserved, auto, next_reserved: None, next_groups: None, reason }
    }

    /// What the workers shall follow.
    pub(super) fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Follows what was measured lately; true if the policy has changed. To be called every second.
    pub(super) fn follow(&mut self, recent: &Recent) -> bool {
        let times = ServiceTimes::new(recent.service_times.iter().copied());
        if let Some(decision) = self.auto.as_mut().and_then(|auto| auto.decide(&times)) {
            self.kind = match decision.choice {
                Choice::Steal => self.scale.steal(),
                Choice::Global => Kind::Global(Global),
                Choice::Hybrid { budget } => {
                    let measured = softly_reserved_workers(&times, budget, recent.busy_workers, self.workers);
                    let reserved = self.fixed_reserved.unwrap_or(measured);
                    self.scale.hybrid(budget, reserved)
                }
                Choice::OnDemand { budget } => self.scale.ondemand(budget),
            };
            self.reason = decision.reason.to_string();
            return true;
        }
        self.resize(&times, recent.busy_workers) || self.regroup(recent)
    }

    /// What has been decided, for the endpoint; `None` under a policy that does not adapt.
    pub(super) fn decision(&self) -> Option<metrics::Decision> {
        let (policy, budget, reserved) = match &self.kind {
            Kind::Steal(_) => (PolicyName::Steal, None, None),
            Kind::Global(_) => (PolicyName::Global, None, None),
            Kind::Hybrid(hybrid) => (PolicyName::Hybrid, Some(hybrid.budget), Some(hybrid.reserved)),
            Kind::OnDemand(ondemand) => (PolicyName::OnDemand, Some(ondemand.budget), None),
            Kind::Reserve(reserve) => (PolicyName::Reserve, None, Some(reserve.groups.sizes[0])),
            Kind::Isolated(_) | Kind::Shed(_) | Kind::Pools(_) | Kind::Tasks(_) => return None,
        };
        (self.auto.is_some() || reserved.is_some()).then(|| metrics::Decision {
            policy: policy.name().to_owned(),
            budget,
            reserved,
            reason: self.reason.clone(),
        })
    }

    /// Reserves as many workers as fresh requests keep busy, once two measurements in a row agree.
    fn resize(&mut self, times: &ServiceTimes, busy_workers: f64) -> bool {
        let Kind::Hybrid(hybrid) = &mut self.kind else { return false };
        // Silence says nothing about the load to come.
        if times.count() == 0 || self.fixed_reserved.is_some() {
            return false;
        }
        let reserved = softly_reserved_workers(times, hybrid.budget, busy_workers, self.workers);
        if reserved == hybrid.reserved {
            self.next_reserved = None;
            return false;
        }
        if self.next_reserved.replace(reserved) != Some(reserved) {
            return false;
        }
        hybrid.reserved = reserved;
        self.next_reserved = None;
        let share = times.share_within(hybrid.budget);
        self.reason = format!(
            "{busy_workers:.1} workers are busy, {:.0} % of the time with what is within the budget",
            share * 100.0
        );
        true
    }
}

impl Adaptation {
    /// Gives each group of classes the workers that it keeps busy, once two measurements in a row agree.
    fn regroup(&mut self, recent: &Recent) -> bool {
        let Kind::Reserve(reserve) = &mut self.kind else { return false };
        let Some(groups) = Groups::by_demand(&recent.by_class, self.workers, self.fixed_reserved) else { return false };
        if groups == reserve.groups {
            self.next_groups = None;
            return false;
        }
        if self.next_groups.replace(groups.clone()).as_ref() != Some(&groups) {
            return false;
        }
        self.reason = format!("workers by group of classes, the lightest first: {:?}", groups.sizes);
        reserve.groups = groups;
        self.next_groups = None;
        true
    }
}

/// What it costs to pause a handler, queue its continuation and resume it: the fastest of several tries, for the rest is
/// what else the machine did.
fn yield_cost() -> Nanos {
    const YIELDS: u32 = 1_000;
    let queue = Sharded::new(1, 1);
    let limits = Limits { ask_at: Nanos::ZERO, expires_at: Nanos::MAX };
    let mut context = Context::from_waker(Waker::noop());
    let mut handler = pin!(async {
        loop {
            checkpoint().await;
        }
    });
    let mut run = || {
        let start = clock::now();
        for _ in 0..YIELDS {
            let (polled, pause) = enter(limits, || handler.as_mut().poll(&mut context));
            let polled: std::task::Poll<()> = polled;
            let queued = queue.push([0; 2], (polled, pause));
            debug_assert!(queued.is_ok(), "the queue is empty");
            std::hint::black_box(queue.pop(0));
        }
        clock::now().minus(start).get() / u64::from(YIELDS)
    };
    Nanos::new((0..20).map(|_| run()).min().unwrap_or(0).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(pairs: &[(&str, &str)]) -> Config {
        Config::from_pairs(pairs.iter().copied()).expect("a valid configuration")
    }

    fn recent(bins: &[(u64, u64)], busy_workers: f64) -> Recent {
        let service_times = bins.iter().map(|(us, count)| (Nanos::from_micros(*us), *count)).collect();
        Recent { service_times, busy_workers, ..Recent::default() }
    }

    #[test]
    fn hybrid_follows_the_demand_when_two_measurements_agree() {
        let mut adaptation = Adaptation::new(&config(&[("policy", "hybrid"), ("workers", "14"), ("slice", "5us")]));
        let reserved = |adaptation: &Adaptation| adaptation.decision().and_then(|decision| decision.reserved);
        assert_eq!(reserved(&adaptation), Some(3));
        let heavier = recent(&[(1, 5_000), (100, 5_000)], 11.0);
        assert!(!adaptation.follow(&heavier));
        assert!(!adaptation.follow(&recent(&[], 0.0)), "silence");
        assert!(adaptation.follow(&heavier));
        assert_eq!(reserved(&adaptation), Some(2));
        assert!(!adaptation.follow(&heavier), "nothing new");
    }

    #[test]
    fn hybrid_keeps_a_number_that_was_given() {
        let pairs = [("policy", "hybrid"), ("workers", "14"), ("reserved", "4")];
        let mut adaptation = Adaptation::new(&config(&pairs));
        let heavier = recent(&[(1, 5_000), (100, 5_000)], 11.0);
        assert!(!adaptation.follow(&heavier) && !adaptation.follow(&heavier));
        assert_eq!(adaptation.decision().and_then(|decision| decision.reserved), Some(4));
    }

    #[test]
    fn auto_leaves_steal_once_it_sees_a_gap() {
        let mut adaptation = Adaptation::new(&config(&[("policy", "auto"), ("workers", "4"), ("time-scale", "1000")]));
        assert_eq!(adaptation.decision().map(|decision| decision.policy), Some("steal".to_owned()));
        // On the scale of emulated cores a yield costs nothing.
        let divided = recent(&[(500, 9_900), (500_000, 100)], 2.0);
        assert!(!adaptation.follow(&divided) && !adaptation.follow(&divided));
        assert!(adaptation.follow(&divided));
        let decision = adaptation.decision().expect("auto decides");
        assert_eq!(decision.policy, "ondemand");
        assert!(decision.reason.contains("divide"), "{}", decision.reason);
    }

    #[test]
    fn reserve_follows_the_demand_of_classes() {
        let pairs = [("policy", "reserve"), ("classify", "header"), ("workers", "14")];
        let mut adaptation = Adaptation::new(&config(&pairs));
        let mut recent = Recent::default();
        assert!(!adaptation.follow(&recent));
        (recent.by_class[0], recent.by_class[1]) =
            ((1_000, Nanos::from_micros(1_000)), (1_000, Nanos::from_micros(100_000)));
        assert!(!adaptation.follow(&recent));
        assert!(adaptation.follow(&recent));
        let decision = adaptation.decision().expect("reserve decides");
        assert_eq!((decision.reserved, decision.policy.as_str()), (Some(1), "reserve"));
        assert!(decision.reason.contains("[1, 13]"), "{}", decision.reason);
    }

    #[test]
    fn reserve_keeps_a_number_that_was_given() {
        let pairs = [("policy", "reserve"), ("classify", "header"), ("workers", "14"), ("reserved", "4")];
        let mut adaptation = Adaptation::new(&config(&pairs));
        let mut recent = Recent::default();
        // Extreme bimodal, and then a mix that asks for another number.
        for light in [99_500, 50_000] {
            (recent.by_class[0], recent.by_class[1]) =
                ((light, Nanos::new(500).times(light)), (500, Nanos::from_millis(250)));
            adaptation.follow(&recent);
            adaptation.follow(&recent);
            assert_eq!(adaptation.decision().and_then(|decision| decision.reserved), Some(4));
        }
    }

    /// `forebay simulate` and `plan` predict what a server will do: from the same requests both must make the same policy,
    /// whether it follows what it measures or keeps what the plan says.
    #[test]
    fn a_server_decides_what_the_planner_predicts() {
        use crate::sched::{Policy, Topology};
        use crate::sim::Fit;
        use crate::workload::Workload;

        for (text, workers, load, sizes) in [
            ("extreme-bimodal", 14, 0.9, None),
            ("extreme-bimodal", 14, 0.9, Some([4, 10])),
            ("high-bimodal", 6, 0.5, None),
            ("high-bimodal", 6, 0.5, Some([3, 3])),
            ("zygos-bimodal-1", 3, 0.8, None),
            ("tpcc", 9, 0.7, None),
            ("fixed:200us", 2, 0.7, None),
        ] {
            let workload: Workload = text.parse().expect("a workload");
            let fit = Fit { sizes: sizes.map(Vec::from), ..Fit::new(&workload, workers, load) };
            let times = workload.classes().iter().zip(fit.by_class);
            let recent = Recent {
                service_times: times.map(|(class, (count, _))| (class.cost.mean(), count)).collect(),
                busy_workers: load * workers as f64,
                by_class: fit.by_class,
            };
            for name in PolicyName::ALL {
                let fitted = fit.policy(name);
                let mut settings = vec![("policy", name.to_string()), ("workers", workers.to_string())];
                settings.push(("slice", fit.slice.to_string()));
                if sizes.is_some() && matches!(name, PolicyName::Hybrid | PolicyName::Reserve | PolicyName::Auto) {
                    settings.push(("reserved", fitted.sizes()[0].to_string()));
                }
                if name == PolicyName::Reserve {
                    settings.push(("classify", "header".to_owned()));
                }
                let settings: Vec<(&str, &str)> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
                let mut adaptation = Adaptation::new(&config(&settings));
                adaptation.auto = adaptation.auto.map(|_| Auto::new(fit.yield_cost));
                for _ in 0..10 {
                    adaptation.follow(&recent);
                }
                let topology = match name {
                    PolicyName::Pools => Topology::new(&fitted.sizes()),
                    _ => Topology::new(&[workers]),
                };
                let served = Policy::new(adaptation.kind().clone(), &topology);
                assert_eq!(format!("{served:?}"), format!("{:?}", fitted.policy), "{name} on {text}, sizes {sizes:?}");
            }
        }
    }

    #[test]
    fn fixed_policies_decide_nothing() {
        for policy in ["isolated", "global", "steal", "shed", "pools", "ondemand"] {
            let mut adaptation = Adaptation::new(&config(&[("policy", policy), ("workers", "2")]));
            assert!(!adaptation.follow(&recent(&[(1, 9_900), (500, 100)], 2.0)));
            assert_eq!(adaptation.decision(), None);
        }
    }

    #[test]
    fn a_yield_costs_more_than_nothing_and_less_than_a_system_call_on_a_slow_machine() {
        let cost = yield_cost();
        assert!(cost > Nanos::ZERO && cost < Nanos::from_micros(20), "{cost}");
    }
}
