mod day;
mod waits;

use super::*;
use crate::metrics::{Collector, Recorder, Sample, Spent, WorkerMetrics};
use crate::sched::Recent;
use crate::time::clock::virtual_time;
use std::cell::RefCell;

fn config(pairs: &[(&str, &str)]) -> Config {
    Config::from_pairs(pairs.iter().copied()).expect("a valid configuration")
}

/// As on a server, but with fixed costs of yields, looks and notices, so that this host's speed
/// does not decide a test.
fn adaptation(config: &Config) -> Adaptation {
    with_costs(config, || (Nanos::new(100), Nanos::ZERO, Nanos::ZERO))
}

fn recent(bins: &[(u64, u64)], busy_workers: f64) -> Recent {
    let service_times = bins.iter().map(|(us, count)| (Nanos::from_micros(*us), *count)).collect();
    Recent { service_times, busy_workers, idle_workers: 1.0, ..Recent::default() }
}

// Does `auto` use levels if a hundredth of the time is in requests with checkpoints, and none if a
// hundred-thousandth is?
#[test]
fn auto_makes_no_levels_of_what_cannot_give_way() {
    for (uninterruptible_workers, policy) in [(0.99, "levels"), (0.999_99, "global")] {
        let mut adaptation = adaptation(&config(&[("policy", "auto"), ("workers", "2")]));
        let divided = Recent { uninterruptible_workers, ..recent(&[(10, 9_900), (500, 100)], 1.0) };
        for _ in 0..3 {
            adaptation.follow(&divided);
        }
        assert_eq!(decision(&adaptation.made).policy, policy);
    }
}

// Are parked workers left out of two decisions: when capacity is scarce, and whether there is time
// to pass on requests?
#[test]
fn workers_that_park_do_not_count() {
    for (workers, parked, scarce_from, policy) in [("2", 0, 6, "levels"), ("8", 0, 24, "global"), ("8", 6, 6, "levels")]
    {
        let decided = |times: &[(u64, u64)]| {
            let mut adaptation = adaptation(&config(&[("policy", "auto"), ("workers", workers)]));
            adaptation.parked = parked;
            for _ in 0..3 {
                adaptation.follow(&recent(times, 1.99));
            }
            adaptation.made
        };
        let levels = format!("{:?}", decided(&[(10, 9_900), (500, 100)]).policy);
        assert!(levels.contains(&format!("scarce_from: {scarce_from}")), "{parked} of {workers}: {levels}");
        assert_eq!(decision(&decided(&[(10, 10_000)])).policy, policy, "{parked} of {workers}");
    }
}

// If policies may know classes, do classes begin at levels of their own, and does the reason say
// so? Not otherwise?
#[test]
fn auto_knows_classes_where_it_may() {
    for classify in ["header", "none"] {
        let mut adaptation = adaptation(&config(&[("policy", "auto"), ("classify", classify)]));
        let [light, heavy] = [10, 500].map(|us| (Nanos::from_micros(us), 5_000));
        let mut recent = Recent { service_times: vec![light, heavy], busy_workers: 1.0, ..Recent::default() };
        (recent.times_of_class[0], recent.times_of_class[1]) = (vec![light], vec![heavy]);
        assert!((0..3).any(|_| adaptation.follow(&recent)));
        let decision = decision(&adaptation.made);
        assert_eq!(decision.policy, "levels");
        assert_eq!(decision.reason.ends_with(", class 1 begins at level 1"), classify == "header", "{decision:?}");
    }
}

// Do a server and the planner (`loadgen simulate` and `plan`) make the same policies of the same
// requests? Golden tables hold both over more workloads, except for the sizes of pools.
#[cfg(feature = "cli")]
#[test]
fn a_server_decides_what_the_planner_predicts() {
    let workload: forebay_sim::workload::Workload = "tpcc".parse().expect("a workload");
    let fit = forebay_sim::Fit::new(&workload, 9, 0.7);
    let times = workload.classes().iter().zip(fit.by_class);
    let recent = Recent {
        service_times: times.map(|(class, (count, _))| (class.cost.mean(), count)).collect(),
        rate: workload.rate_at(0.7, 9, 1),
        by_class: fit.by_class,
        ..recent(&[], 0.7 * 9.0)
    };
    for name in crate::sched::PolicyName::ALL.iter().copied() {
        let fitted = fit.policy(name);
        let pools: String = fitted.sizes().iter().enumerate().map(|(pool, size)| format!("p{pool}={size},")).collect();
        let (name, slice) = (name.to_string(), fit.tuning.budget.to_string());
        let mut settings = vec![("policy", &*name), ("workers", "9"), ("slice", &slice)];
        settings.extend((name == "pools").then_some(("pools", pools.trim_end_matches(','))));
        let mut adaptation = adaptation(&config(&settings));
        for _ in 0..10 {
            adaptation.follow(&recent);
        }
        assert_eq!(format!("{:?}", adaptation.made.policy), format!("{:?}", fitted.policy), "{name}");
    }
}

// Does `auto` weigh yields in the unit of the service times? Method: for a scaled gap between 0.5
// ms and 500 ms, yields of 0.1 ms pay, and yields of 40 ms do not.
#[test]
fn auto_weighs_the_yields_of_emulated_cores() {
    let decided = |overheads: &str| {
        let settings = [("policy", "auto"), ("workers", "4"), ("burn", "sleep"), ("time-scale", "1000")];
        let mut adaptation = adaptation(&config(&[&settings[..], &[("overheads", overheads)]].concat()));
        let divided = recent(&[(500, 9_900), (500_000, 100)], 2.0);
        for _ in 0..3 {
            adaptation.follow(&divided);
        }
        (decision(&adaptation.made).reason, adaptation.made.policy.first_slice().is_some())
    };
    let (reason, gives_way) = decided("stock");
    assert!(gives_way && reason.contains("a yield costs 100us"), "{reason}");
    let (reason, gives_way) = decided("yield=40us");
    assert!(!gives_way, "{reason}");
}

/// Service times in nanoseconds, each with its number in a hundred requests.
type Mix = &'static [(u64, u64)];

const LIGHT_AND_HEAVY: Mix = &[(500, 95), (500_000, 5)];
const ALIKE: Mix = &[(10_000, 100)];
const TWICE_AS_LONG: Mix = &[(20_000, 100)];
/// Light requests below the limits of `LIGHT_AND_HEAVY`, heavy ones far above.
const LONGER: Mix = &[(50_000, 95), (5_000_000, 5)];

/// A server without workers. The test tells it second by second which requests were served, and it
/// decides.
struct Measuring<'m> {
    collector: Collector<'m>,
    recorder: RefCell<Recorder<'m>>,
    adaptation: Adaptation,
}

impl<'m> Measuring<'m> {
    /// A server that starts now, in virtual time.
    fn new(metrics: &'m WorkerMetrics, config: &Config) -> Measuring<'m> {
        virtual_time::set(Some(Nanos::from_secs(1_000)));
        let (collector, recorder) = (Collector::new(metrics), RefCell::new(metrics.recorder(0)));
        Measuring { collector, recorder, adaptation: adaptation(config) }
    }

    /// Whether a new decision takes effect after a second with this many requests of each mix. Each
    /// request waited for `queue`; handlers were busy for `busy` in total.
    fn second(&mut self, served: impl IntoIterator<Item = (Mix, u64)>, queue: Nanos, busy: Nanos) -> bool {
        let Measuring { collector, recorder, adaptation } = self;
        for (mix, requests) in served {
            for (ns, percent) in mix {
                let (service, requests) = (Nanos::new(*ns), requests * percent / 100);
                recorder.get_mut().received(requests);
                let sample = Sample { service, queue, ..Sample::default() };
                (0..requests).for_each(|_| recorder.get_mut().answered(&sample));
            }
        }
        let all = Nanos::from_secs(adaptation.made.policy.topology.workers as u64);
        // A little time is neither busy nor idle.
        recorder.get_mut().end_idle(all.minus(busy).minus(Nanos::from_millis(100)));
        recorder.get_mut().spend(Spent::Interruptible, busy);
        recorder.get_mut().end_slice(busy);
        virtual_time::pass(Nanos::from_secs(1));
        collector.collect();
        adaptation.follow(&collector.recent())
    }
}

impl Drop for Measuring<'_> {
    fn drop(&mut self) {
        virtual_time::set(None);
    }
}

// Does `auto` keep its levels while requests are left over? Method: equal requests follow heavy
// ones, many of which have begun and do not end. Then some of these keep all workers busy; then
// some workers are idle.
#[test]
fn auto_keeps_levels_while_requests_are_left() {
    let metrics = WorkerMetrics::new(4);
    let mut server = Measuring::new(&metrics, &config(&[("policy", "auto"), ("workers", "4")]));
    const LONG: Mix = &[(2_000_000, 100)];
    let work = |mix: Mix| Nanos::new(mix.iter().map(|(ns, percent)| ns * percent * 20).sum());
    let mut gives_way = |mix: Mix, busy: Nanos| {
        for _ in 0..20 {
            server.second([(mix, 2_000)], Nanos::ZERO, busy);
        }
        server.adaptation.made.policy.first_slice().is_some()
    };
    assert!(gives_way(LIGHT_AND_HEAVY, work(LIGHT_AND_HEAVY)));
    assert!(gives_way(ALIKE, work(ALIKE).plus(Nanos::from_secs(1))), "some have not ended");
    assert!(gives_way(LONG, work(LONG)), "no worker is idle");
    assert!(!gives_way(ALIKE, work(ALIKE)));
}
