//! Do workers in virtual time act as the policies say, and do runs repeat bit for bit?

mod turns;

use super::*;
use crate::inputs::{named, offer, policies, with_patience, workload};
use crate::workload::Workload;
use forebay_metrics::Percentile;
use forebay_sched::overload::WaitBounds;
use forebay_sched::{Patience, Tuning};

// Does each request have one fate, also in groups of several sizes? Method: bounds so small that
// sockets, packets and queues run full.
#[test]
fn under_every_policy_and_load_each_request_has_one_fate() {
    let workload = workload("bimodal:0.9:2us:100us");
    let limits = Limits { batch: 4, packets_per_worker: 8, queued_per_worker: 4, socket_capacity: 16 };
    for load in [0.5, 0.9, 3.0] {
        for (name, policy) in policies(&workload, load, 4) {
            let setup = Setup { limits, ..Setup::with_overheads(policy, Overheads::STOCK) };
            let deadline = Nanos::from_micros(300);
            let tally = simulate(&setup, OpenLoop { deadline, ..offer(&workload, load, 4) }.arrivals(4));
            let fates = tally.fates();
            assert_eq!(fates.arrived(), Some(22_000), "{name} at {load}: {fates:?}");
            let measured: u64 = tally.slowdown()[0].1.count;
            assert!(measured <= 20_000 && fates.answered >= measured, "{name} at {load}");
            if load > 1.0 {
                assert!(fates.kernel_dropped > Some(0) && fates.shed_expired > 0, "{name}: {fates:?}");
            }
        }
        for (name, policy) in policies(&workload, load, 3).into_iter().filter(|(_, one)| one.topology.pools() == 1) {
            let setup = Setup { limits, groups: vec![3, 2, 2], ..Setup::with_overheads(policy, Overheads::STOCK) };
            let tally = simulate(&setup, offer(&workload, load, 7).arrivals(7));
            assert_eq!(tally.fates().arrived(), Some(22_000), "groups, {name} at {load}: {:?}", tally.fates());
        }
    }
}

/// A request at the first socket, with times in microseconds.
fn arriving(at: u64, cost: u64, class: u8) -> ArrivingRequest {
    let (at, cost) = (Nanos::from_micros(at), Nanos::from_micros(cost));
    ArrivingRequest { class, ..ArrivingRequest::new(at, cost) }
}

// Does a worker hold at most its packets at a time, and use them again? Method: one packet, and two
// places in the socket. Two requests arrive while one is served and one waits, so only one of them
// has a place.
#[test]
fn packets_run_out_and_come_back() {
    let policy = Fit::new(&workload("fixed:100us"), 1, 0.5).policy(named("global")).policy;
    let limits = Limits { packets_per_worker: 1, socket_capacity: 2, ..Limits::SERVER };
    let requests = [1, 2, 3, 150, 151].map(|at| arriving(at, 100, 0));
    let fates = simulate(&Setup { limits, ..Setup::ideal(policy) }, requests.into_iter()).fates();
    assert_eq!((fates.answered, fates.kernel_dropped), (4, Some(1)));
}

// Is an answer late after its deadline, or once its client has left, and is its CPU time wasted?
// Method: one worker without checkpoints. Clients leave after 100 us. The third request waits
// longer, and the fourth has a deadline.
#[test]
fn what_is_answered_late_is_wasted() {
    let policy = Fit::new(&workload("fixed:60us"), 1, 0.5).policy(named("global")).policy;
    let patient = WaitBounds { patience: Nanos::from_micros(100), ..WaitBounds::NONE };
    let waits = WaitLimits { fresh: patient, interrupted: patient, ..WaitLimits::NONE };
    let setup = Setup { waits, checkpoint_step: Nanos::from_micros(60), ..Setup::ideal(policy) };
    let requests = [arriving(0, 60, 0), arriving(1, 60, 0), arriving(2, 60, 1), arriving(200, 60, 2)];
    let deadline = Nanos::from_micros(50);
    let requests = requests.map(|request| ArrivingRequest {
        deadline: if request.class == 2 { deadline } else { request.deadline },
        ..request
    });
    let tally = simulate(&setup, requests.into_iter());
    assert_eq!((tally.fates().answered, tally.late_and_wasted()), (4, (2, Nanos::from_micros(120))));
    let in_time = tally.in_time(Nanos::MAX);
    assert_eq!(in_time, [("all", 0.5), ("short", 1.0), ("long", 0.0), ("class2", 0.0)]);
}

// Does a worker pay for a hop if it runs a request that another worker received, and only then?
// Method: both workers serve a request. The first one receives two further requests, and runs one
// of them; the second worker runs the other.
#[test]
fn what_another_worker_held_costs_a_hop() {
    let policy = Fit::new(&workload("fixed:100us"), 2, 0.5).policy(named("global")).policy;
    let setup = Setup::with_overheads(policy, "hop=1us".parse().expect("overheads"));
    let requests = [arriving(0, 100, 0), arriving(0, 150, 1), arriving(10, 100, 2), arriving(10, 100, 3)];
    let tally = simulate(&setup, requests.into_iter());
    let latencies = [0, 1, 2, 3].map(|class| tally.latency_mean(Some(class)));
    assert_eq!(latencies, [100, 150, 190, 241].map(Nanos::from_micros));
}

// Does the last of two workers join for uninterrupted work while pieces are short and four wait,
// and only then? Method: one piece makes the length known. Then six come at once, and a light
// request while the first of them run.
#[test]
fn the_last_worker_joins_for_short_pieces() {
    for policy in ["global", "steal", "levels"] {
        // Of six short pieces, two run at once while four wait. The light request waits for one.
        for (piece, ended_in_ms, light) in [(1_000, 15, 910), (2_001, 22, 10)] {
            let policy = Fit::new(&workload("fixed:100us"), 2, 0.5).policy(named(policy)).policy;
            let setup = Setup { uninterrupted_from: Nanos::from_micros(100), ..Setup::ideal(policy) };
            let pieces = (0..7).map(|number: u64| arriving(number.min(1) * 10_000, piece, 1));
            let tally = simulate(&setup, pieces.chain([arriving(10_100, 10, 0)]));
            let seen = (tally.ended_at().get() / 1_000_000, tally.latency_mean(Some(0)));
            assert_eq!(seen, (ended_in_ms, Nanos::from_micros(light)), "{piece}");
        }
    }
}

// Does a pause delay exactly the requests that arrive during it or are present? Method: one worker,
// costs of 10 us, a pause of 1 ms at 100 us, while the second request is served.
#[test]
fn in_a_pause_workers_stand_still_and_requests_come() {
    let policy = Fit::new(&workload("fixed:10us"), 1, 0.5).policy(named("global")).policy;
    let pauses = vec![(Nanos::from_micros(100), Nanos::from_micros(1_000))];
    let came = [(0, 0), (95, 1), (400, 2), (1_200, 3)].map(|(at, class)| arriving(at, 10, class));
    let tally = simulate(&Setup { pauses, ..Setup::ideal(policy) }, came.into_iter());
    let latencies = [0, 1, 2, 3].map(|class| tally.latency_mean(Some(class)));
    assert_eq!(latencies, [10, 1_010, 715, 10].map(Nanos::from_micros));
}

/// The result of `workload` at `load` on this many workers under `levels`, which is made for at
/// most 16 workers. Steps have the costs of a Linux host. There are 400,000 requests. `changed`
/// changes the setup and each request.
fn levels_at(
    workload: &str,
    workers: usize,
    load: f64,
    changed: (impl Fn(&mut Setup), impl FnMut(ArrivingRequest) -> ArrivingRequest),
) -> Tally {
    let workload: Workload = workload.parse().expect("a preset");
    let overheads = Overheads::STOCK;
    let workload = workload.with_time_beside(overheads.per_request());
    let fit = Fit::new(&workload, workers.min(16), load).knowing(&overheads);
    let (rate, deadline) = (workload.rate_at(load, workers, 1), Nanos::MAX);
    let offer =
        OpenLoop { workload: &workload, rate, flows: 448, seed: 1, deadline, warmup: 40_000, requests: 400_000 };
    let mut setup = Setup::with_overheads(fit.policy(named("levels")).policy, overheads);
    changed.0(&mut setup);
    simulate(&setup, offer.arrivals(workers).map(changed.1)).of_queue(load, overheads.per_request())
}

// Do heavy requests get the capacity that they need, although they give way? Method: TPC-C on 14
// workers at a load of .98 under `levels`, with the rule for scarce capacity and without it.
#[test]
fn near_saturation_heavy_requests_do_not_starve() {
    let tallies = [false, true].map(|never| {
        let changed = |patience: Patience| Patience {
            scarce_from: if never { usize::MAX } else { patience.scarce_from },
            ..patience
        };
        let change = |setup: &mut Setup| {
            let patience = setup.policy.patience().map(changed);
            setup.policy = with_patience(setup.policy.clone(), patience);
        };
        levels_at("tpcc", 14, 0.98, (change, |request| request))
    });
    let [scarce, never] = tallies.map(|tally| tally.slowdown_at(Percentile::P99_9));
    assert!(scarce * 2.0 < never, "{scarce}, where it is never scarce {never}");
}

// If its queues are full, does a worker continue its work, instead of looking again at once for
// requests that have no room? Method: three times the capacity of one worker, under the limits
// before any measurement.
#[test]
fn a_worker_without_room_works_on() {
    let workload = workload("fixed:300us");
    let policy = Tuning::new(1, Nanos::from_micros(50)).policy("levels");
    assert!(policy.patience().is_none(), "nothing is measured");
    let setup = Setup::with_overheads(policy, Overheads::STOCK);
    let tally = simulate(&setup, offer(&workload, 3.0, 1).arrivals(1));
    let useful = tally.fates().answered as f64 * 300e-6 / tally.ended_at().as_secs_f64();
    assert!(useful > 0.95, "{useful} of the time");
}

// Is a run unstable if its backlog grows to the end, and only then? At a load of .95, yields and
// looks take the remaining capacity.
#[test]
fn a_backlog_that_grows_is_unstable() {
    let runs = [0.9, 0.95].map(|load| levels_at("extreme-bimodal", 14, load, (|_: &mut Setup| {}, |request| request)));
    assert_eq!(runs.each_ref().map(Tally::is_unstable), [false, true]);
    assert!(runs.each_ref().map(Tally::utilisation).is_sorted() && runs[1].utilisation() > Some(0.995));
}

// Do groups share a backlog? Method: the first of two groups of 16 workers gets 55 % of the
// requests. If a group helped only when it is idle, the p99.9 slowdown would be 161.
#[test]
fn the_longest_queues_are_relieved() {
    let mut count = 0;
    let uneven = |request: ArrivingRequest| {
        count += 1;
        let moves = request.socket >= 16 && count % 10 == 0;
        ArrivingRequest { socket: if moves { request.socket - 16 } else { request.socket }, ..request }
    };
    let tally = levels_at("tpcc", 32, 0.98, (|setup: &mut Setup| setup.groups = vec![16, 16], uneven));
    let slowdown = tally.slowdown_at(Percentile::P99_9);
    assert!(slowdown < 60.0, "{slowdown}");
}
