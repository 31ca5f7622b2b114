//! Scenarios drawn from a seed: a server, a policy, its requests, and events during the run.

use super::handler::{Act, HEADER, IGNORED, LONG, MAGIC, MUTE, OVER_RATE, PROVEN, REFUSED, REPEATABLE, UNSEALED};
use crate::metrics::{Collector, Spent, WorkerMetrics};
use crate::sched::auto::Decision;
use crate::sched::bounds::BATCH;
use crate::sched::ladder::{Ladder, Ladders};
use crate::sched::overload::{WaitBounds, WaitLimits};
use crate::sched::policy::{GiveWay, Limit};
use crate::sched::{Patience, Policy, Tuning, Wait, WorkerId};
use crate::shards::Bounds;
use crate::time::Nanos;
use forebay_sim::Rest;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Requests that shards have begun, and that have not ended, at most.
const BEGUN: usize = 20;

/// Everything that determines a run.
pub(super) struct Scenario {
    pub(super) workers: usize,
    pub(super) policy: Policy,
    pub(super) classified: bool,
    pub(super) rest: Rest,
    /// Time to wake a worker.
    pub(super) wake: Nanos,
    /// Time of each step of a worker besides the work.
    pub(super) step: Nanos,
    pub(super) packets: usize,
    pub(super) queued: usize,
    /// The most requests set aside because their flow is busy: in total, and of one flow.
    pub(super) set_aside: [usize; 2],
    pub(super) socket_capacity: usize,
    /// Every Nth message cannot be sent; 0 = none.
    pub(super) unsent_every: u32,
    /// Every Nth receive has impossible stamps; 0 = none.
    pub(super) odd_every: u32,
    /// Whether all datagrams in a socket leave it as one train, as a GRO batch does.
    pub(super) trains: bool,
    /// Whether datagrams tell how long they have waited in their socket.
    pub(super) stamps: bool,
    /// Events in order of time.
    pub(super) events: Vec<(Nanos, Event)>,
    /// How long requests may wait.
    pub(super) waits: WaitLimits,
    /// Time for a drain, from the last event on.
    pub(super) drain: Nanos,
}

/// An event during a run.
#[derive(Clone)]
pub(super) enum Event {
    /// A datagram arrives at this worker's socket.
    Datagram(WorkerId, Vec<u8>),
    /// The server switches to another policy.
    Switch(Box<Policy>),
    /// The gate shuts and the server drains.
    Stop,
    /// The predecessor's shards hand over this.
    Inherit(Vec<u8>),
    /// Nothing happens by itself, but time has passed.
    Tick,
}

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

impl Scenario {
    /// A server without overheads under `policy`, with `room` in each socket and in all queues. Its
    /// workers never sleep.
    pub(super) fn plain(policy: Policy, room: usize, events: Vec<(Nanos, Event)>) -> Scenario {
        Scenario {
            workers: policy.topology.workers,
            policy,
            classified: false,
            rest: Rest::LOOKS,
            wake: Nanos::ZERO,
            step: Nanos::ZERO,
            packets: BATCH + 40,
            queued: room,
            set_aside: [8, 8],
            socket_capacity: room,
            unsent_every: 0,
            odd_every: 0,
            trains: false,
            stamps: false,
            events,
            waits: WaitLimits::NONE,
            drain: us(1_000),
        }
    }

    /// What bounds the shards. The thread that stops the server counts as a worker.
    pub(super) fn bounds(&self) -> Bounds {
        let [set_aside, set_aside_of_shard] = self.set_aside;
        let (packets, sockets, workers) = (self.packets, self.workers, self.workers + 1);
        Bounds { packets, set_aside, set_aside_of_shard, sockets, workers, begun: BEGUN }
    }

    pub(super) fn draw(seed: u64) -> Scenario {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let workers = random.random_range(1..=5);
        let wait = Wait::ALL[random.random_range(0..3)];
        let sleeps = Rest { wait, nap_min: us(10) };
        let rest = if random.random_bool(0.3) { Rest::LOOKS } else { sleeps };
        let requests = random.random_range(1..=60);
        let mut scenario = Scenario {
            workers,
            policy: policy_of(&mut random, workers),
            classified: random.random(),
            rest,
            wake: if rest == Rest::LOOKS { us(0) } else { us(random.random_range(0..20)) },
            step: Nanos::new([0, 0, 100, 1_000][random.random_range(0..4)]),
            packets: BATCH + workers * random.random_range(40..80),
            queued: workers * random.random_range(1..20),
            set_aside: [random.random_range(0..8), random.random_range(1..5)],
            socket_capacity: random.random_range(4..60),
            unsent_every: [0, 0, 3, 20][random.random_range(0..4)],
            odd_every: 0,
            trains: false,
            stamps: false,
            events: Vec::new(),
            waits: WaitLimits::NONE,
            drain: us(random.random_range(0..400)),
        };
        // Without children, all time is accounted for.
        let forks = random.random_bool(0.5);
        let mut at = us(1);
        for _ in 0..requests {
            // Bursts, and now and then a silence in which all workers fall asleep.
            at = at.plus(us([0, 0, 0, 1, 3, 20, 200][random.random_range(0..7)]));
            if random.random_bool(0.03) {
                scenario.events.push((at, Event::Switch(Box::new(policy_of(&mut random, workers)))));
            }
            let socket = if random.random_bool(0.5) { 0 } else { random.random_range(0..workers) };
            scenario.events.push((at, Event::Datagram(socket, datagram(&mut random, forks))));
        }
        if random.random_bool(0.5) {
            // At a random place among the requests.
            let place = random.random_range(0..=scenario.events.len());
            let at = place.checked_sub(1).map_or(us(1), |before| scenario.events[before].0);
            scenario.events.insert(place, (at, Event::Stop));
        } else {
            scenario.events.push((at.plus(us(2_000)), Event::Stop));
        }
        if random.random_bool(0.4) {
            let target = us(random.random_range(1..40));
            let interval = us([0, 0, 20, 100][random.random_range(0..4)]);
            let limit = [3, 8, 1_000][random.random_range(0..3)];
            let of = |target: Nanos| WaitBounds {
                interval,
                bound: target.times(2),
                patience: target.times(limit.max(4)),
                ..WaitBounds::always(target.times(limit), Nanos::ZERO)
            };
            let of = |target| WaitBounds { target, ..of(target) };
            scenario.waits = WaitLimits { fresh: of(target), interrupted: of(target.times(2)), ..WaitLimits::NONE };
        }
        scenario.odd_every = [0, 0, 3, 7][random.random_range(0..4)];
        scenario
    }

    /// Checks that the time of all requests, served or not, equals the time that workers spent.
    /// Children that are not joined belong to no request, so runs with forks are skipped. So are
    /// large servers, because adding up their histograms would take half of the test's time.
    pub(super) fn check_time(&self, metrics: &WorkerMetrics) -> Result<(), String> {
        let forks = |(_, event): &(Nanos, Event)| match event {
            Event::Datagram(_, bytes) => bytes.iter().skip(HEADER).any(|act| Act::of(*act) == Act::Fork),
            _ => false,
        };
        if self.workers > 2 || self.events.iter().any(forks) {
            return Ok(());
        }
        let mut collector = Collector::new(metrics);
        collector.collect();
        let counts = metrics.counts();
        let (worked, served, unanswered) = (counts.worked(), collector.served(), counts.spent(Spent::Unanswered));
        if worked == served.plus(unanswered) {
            return Ok(());
        }
        Err(format!("worked {worked}, for what was served {served}, for what was not {unanswered}"))
    }
}

/// The kinds of policies that [`policy_of`] makes. Pools come twice as often.
const KINDS: [&str; 9] = ["isolated", "global", "steal", "shed", "pools", "pools", "looks", "levels", "ladders"];

fn policy_of(random: &mut impl RngExt, workers: usize) -> Policy {
    let budget = us(random.random_range(1..8));
    let thief_threshold = us(random.random_range(0..10));
    let kind = KINDS[random.random_range(0..KINDS.len())];
    let tuning = Tuning { thief_threshold: Some(thief_threshold), ..Tuning::new(workers, budget) };
    match kind {
        "isolated" | "steal" | "shed" | "levels" => tuning.policy(kind),
        "global" => Policy { look_after: us(random.random_range(0..12)), ..tuning.policy("global") },
        "pools" => Tuning { sizes: Some(split(random, workers)), ..tuning }.policy("pools"),
        "looks" => {
            let mut policy = tuning.policy("levels");
            policy.look_after = us(1);
            if let Limit::Attained { gives_way: GiveWay { rarely, .. }, .. } = &mut policy.limit {
                *rarely = us(random.random_range(1..20));
            }
            policy
        }
        _ => {
            let scarce_from = if random.random_bool(0.5) { random.random_range(0..4) } else { usize::MAX };
            let price = Nanos::new(random.random_range(0..2_000));
            let patience = Patience { scarce_from, ..Patience::of(price, us(1)) };
            let patience = random.random_bool(0.5).then_some(patience);
            let in_order = random.random_bool(0.5);
            let decision = Decision { in_order, ..Decision::of(ladders(random), "") };
            let mut policy = decision.make(&tuning).policy;
            if let Limit::Attained { gives_way, .. } = &mut policy.limit {
                gives_way.patience = patience;
            }
            policy
        }
    }
}

/// Levels for all requests, and for those of each class.
fn ladders(random: &mut impl RngExt) -> Ladders {
    let mut ladder = |rises: std::ops::Range<usize>| {
        let (mut ladder, mut from) = (Ladder::new(random.random_range(0..3)), Nanos::ZERO);
        for _ in 0..random.random_range(rises) {
            from = from.plus(us(random.random_range(1..8)));
            ladder.rise_to(ladder.last() + random.random_range(1..3), from);
        }
        ladder
    };
    Ladders { all: ladder(0..3), of_class: Some(Box::new(std::array::from_fn(|_| ladder(0..3)))) }
}

/// Splits `workers` into pools of at least one worker.
fn split(random: &mut impl RngExt, workers: usize) -> Vec<usize> {
    let pools = random.random_range(1..=workers.min(3));
    let mut sizes = vec![1; pools];
    (pools..workers).for_each(|_| sizes[random.random_range(0..pools)] += 1);
    sizes
}

/// Draws a request: mostly light, some long ones with checkpoints, and a few that misbehave.
fn datagram(random: &mut impl RngExt, forks: bool) -> Vec<u8> {
    match random.random_range(0..40) {
        0 => return vec![0; random.random_range(0..8)],
        1 => return vec![[REFUSED, OVER_RATE, IGNORED][random.random_range(0..3)], 0, 0, random.random_range(0..3)],
        _ => {}
    }
    let deadline = if random.random_bool(0.2) { random.random_range(1..60) } else { 0 };
    let cost = [1, 1, 2, 5, 30, 120][random.random_range(0..6)];
    let magic = if random.random_bool(0.9) {
        MAGIC
    } else {
        [MUTE, LONG, PROVEN, UNSEALED, REPEATABLE][random.random_range(0..5)]
    };
    let flow = if random.random_bool(0.5) { random.random_range(1..4) } else { 0 };
    let mut bytes = vec![magic, random.random_range(0..3), deadline, flow];
    bytes.resize(HEADER + cost, 0);
    // The first act is a checkpoint. An act's number is its index in `Act::ALL`.
    for act in &mut bytes[HEADER..] {
        *act = match random.random_range(0..100) {
            0..60 => 0,
            60..94 => 1,
            94..96 => 2,
            96 if forks => 3,
            97..98 => 4,
            98 if random.random_bool(0.3) => 5,
            99 if random.random_bool(0.3) => 6,
            _ => 0,
        };
    }
    bytes
}
