//! Detects workers that make no progress. `/readyz` and `/healthz` report a pool in which no worker
//! makes progress. The supervisor's watchdog is fed only while every worker makes progress.
//!
//! For the watchdog, a worker makes progress if its loop has made a turn since the last feed, or if
//! it sleeps or is parked. It also makes progress if its current slice is shorter than
//! `--unhealthy-after`. A long job with checkpoints makes progress, because each checkpoint begins
//! a slice. For `/healthz`, a pool in which requests wait while all workers sleep makes no
//! progress, after the same time.
//!
//! If workers do not help one another (`isolated`), each worker counts as a pool of its own. The
//! helper threads are a pool too (`helpers.rs`).
//!
//! A worker *moves* when its loop makes a turn, and when a slice of its job ends. So a worker whose
//! handler has checkpoints moves every millisecond. A sleeping worker is well while no request
//! waits for it. The worker only counts its moves; each check compares the count with that of the
//! last check.

use super::helpers::{Helper, HelperObservations, named};
use crate::config::Config;
use crate::metrics::WorkerMetrics;
use crate::runtime::continuation::HelpersState;
use crate::sched::Topology;
use crate::time::{Nanos, Onset, Turn};

/// A pool is stuck if none of its workers has moved for this long.
const STILL_MAX: Nanos = Nanos::from_secs(1);

/// The state of a pool at one moment.
pub(crate) struct PoolState {
    /// The pool's name in messages.
    pub(crate) name: String,
    /// The workers of the pool that are not parked.
    pub(crate) workers: Vec<usize>,
    /// Jobs in the pool's queue and in the deques of its workers.
    pub(crate) waiting: usize,
}

/// A pool in which no worker moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// Time since the pool last moved.
    pub(crate) still: Nanos,
    pub(crate) reason: String,
}

impl PoolState {
    /// The pools of `topology` with their working workers, from the lengths of queues and deques.
    /// If workers do not help one another, each is a pool for its own socket.
    pub(crate) fn all(
        topology: &Topology,
        config: &Config,
        queues: &[usize],
        deques: &[usize],
        works: impl Fn(&usize) -> bool,
    ) -> Vec<PoolState> {
        let entry = config.policy.entry();
        if !entry.shares_sockets {
            let of =
                |worker| PoolState { name: format!("socket {worker}"), workers: vec![worker], waiting: deques[worker] };
            return (0..topology.workers).map(of).collect();
        }
        let of = |pool: usize| {
            let workers = topology.members(pool);
            let name = match config.pools.get(pool) {
                _ if topology.pools() == 1 => "the server".to_owned(),
                Some(configured) if entry.has_pools() => format!("pool {}", configured.name),
                _ => format!("pool {pool}"),
            };
            let waiting = queues[pool] + deques[workers.clone()].iter().sum::<usize>();
            PoolState { name, workers: workers.filter(&works).collect(), waiting }
        };
        (0..topology.pools()).map(of).collect()
    }
}

/// Observations that are kept from one check to the next.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    still_max: Nanos,
    workers: Vec<Observation>,
    /// For each pool, the time since which every check has found waiting jobs.
    waiting_since: Vec<Option<Nanos>>,
    helpers: HelperObservations,
    /// The last check of the helpers.
    stuck_helpers: Option<Stuck>,
    reported: Onset,
    /// When every worker had last made progress.
    fed_at: Nanos,
    /// Whether the watchdog was fed the last time.
    pub(crate) feeds: bool,
}

#[derive(Clone, Copy, Debug)]
struct Observation {
    moves: u64,
    at: Nanos,
}

impl Watch {
    /// Watches `workers` workers from `now` on. `step` is the longest expected time between two
    /// checkpoints.
    pub(crate) fn new(workers: usize, step: Nanos, now: Nanos) -> Watch {
        let workers = vec![Observation { moves: 0, at: now }; workers];
        Watch { still_max: STILL_MAX.max(step), workers, feeds: true, ..Watch::default() }
    }

    fn note_moves(&mut self, metrics: &WorkerMetrics, now: Nanos) {
        for (worker, seen) in self.workers.iter_mut().enumerate() {
            let moves = metrics.moves(worker);
            if moves != seen.moves {
                *seen = Observation { moves, at: now };
            }
        }
    }

    /// Checks the helpers, which all servers of the process share, for the next [`Watch::look`].
    /// `held_up` returns the shards of this server that wait for them.
    pub(crate) fn see_helpers(
        &mut self,
        helpers: &[Helper],
        state: &HelpersState,
        held_up: impl FnOnce() -> Vec<u32>,
        now: Nanos,
    ) {
        let stuck = self.helpers.look(helpers, state.waiting, state.oldest_waiting, now);
        self.stuck_helpers = stuck.map(|(still, reason)| Stuck { still, reason: reason + &named(&held_up()) });
    }

    /// Checks all workers. Returns the pool that has been stuck for longest. Logs when a pool gets
    /// stuck, and when no pool is stuck any more.
    pub(crate) fn look(&mut self, metrics: &WorkerMetrics, pools: &[PoolState], now: Nanos) -> Option<Stuck> {
        self.note_moves(metrics, now);
        self.waiting_since.resize(pools.len(), None);
        for (pool, since) in pools.iter().zip(&mut self.waiting_since) {
            *since = if pool.waiting > 0 { since.or(Some(now)) } else { None };
        }
        let stuck = pools.iter().enumerate().filter_map(|(number, pool)| self.stuck(metrics, number, pool, now));
        let longest = stuck.chain(self.stuck_helpers.clone()).max_by_key(|stuck| stuck.still);
        match (self.reported.see(longest.is_some(), Nanos::ZERO, now), &longest) {
            (Some(Turn::Begins), Some(stuck)) => tracing::error!("{}", stuck.reason),
            (Some(Turn::Ends), _) => tracing::info!("no longer stuck: every pool moves"),
            _ => {}
        }
        longest
    }

    /// Looks for the first worker without progress: it has not moved since the last feed, and does
    /// not sleep. A worker whose slice began less than `bound` ago makes progress (zero = without
    /// limit). If every worker makes progress, progress counts from now on for the next feed.
    pub(crate) fn look_for_standing(
        &mut self,
        metrics: &WorkerMetrics,
        is_asleep: impl Fn(usize) -> bool,
        bound: Nanos,
        now: Nanos,
    ) -> Option<usize> {
        self.note_moves(metrics, now);
        let stands = |worker: &usize| {
            let in_job = |since: Nanos| bound == Nanos::ZERO || now.minus(since) < bound;
            self.workers[*worker].at <= self.fed_at
                && !metrics.running_since(*worker).is_some_and(in_job)
                && !is_asleep(*worker)
        };
        let standing = (0..self.workers.len()).find(stands);
        if standing.is_none() {
            self.fed_at = now;
        }
        standing
    }

    fn stuck(&self, metrics: &WorkerMetrics, number: usize, pool: &PoolState, now: Nanos) -> Option<Stuck> {
        let waits = self.waiting_since[number].map_or(Nanos::ZERO, |since| now.minus(since));
        let still = |worker: usize| match metrics.running_since(worker) {
            Some(since) => now.minus(since),
            None => now.minus(self.workers[worker].at).min(waits),
        };
        let still = pool.workers.iter().copied().map(still).min()?;
        (still >= self.still_max).then(|| {
            let PoolState { name, workers, waiting } = pool;
            let running = workers.iter().filter(|worker| metrics.running_since(**worker).is_some()).count();
            let (count, seconds) = (workers.len(), still.as_secs_f64());
            let reason = format!(
                "stuck: of the {count} workers of {name} none has moved for {seconds:.1} s; {running} are in a job that \
                 passes no checkpoint, {waiting} requests wait"
            );
            Stuck { still, reason }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::admin::logged;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    fn pools(waiting: [usize; 2]) -> [PoolState; 2] {
        let pool = |name: &str, workers, waiting| PoolState { name: name.to_owned(), workers, waiting };
        [pool("pool front", vec![0], waiting[0]), pool("pool heavy", vec![1, 2], waiting[1])]
    }

    // Is a pool stuck exactly while all of its workers are in a job and none moves?
    #[test]
    fn a_pool_is_stuck_when_no_worker_of_it_moves() {
        let metrics = WorkerMetrics::new(3);
        let mut recorders = [0, 1, 2].map(|worker| metrics.recorder(worker));
        let mut watch = Watch::new(3, Nanos::ZERO, MS(0));
        let mut look = |now| watch.look(&metrics, &pools([0, 0]), MS(now)).map(|stuck| (stuck.still, stuck.reason));
        recorders[1].begin_slice(MS(100));
        assert_eq!(look(5_000), None, "another worker of the pool is free");
        recorders[2].begin_slice(MS(5_000));
        assert_eq!(look(5_999), None, "not for long");
        let (still, reason) = look(6_500).expect("stuck");
        assert_eq!(still, MS(1_500), "that of the one that moved last");
        assert_eq!(
            reason,
            "stuck: of the 2 workers of pool heavy none has moved for 1.5 s; 2 are in a job that passes no checkpoint, 0 \
             requests wait"
        );
        recorders[1].end_slice(MS(1));
        recorders[1].begin_slice(MS(6_600));
        assert_eq!(look(6_700), None, "it has passed a checkpoint");
    }

    // Is each socket a pool if workers do not help one another, and each pool one with its name?
    #[test]
    fn a_part_that_nobody_helps_is_a_pool() {
        for (settings, sizes, expected) in [
            ([("policy", "isolated"), ("workers", "2")], &[2][..], [("socket 0", 1, 3), ("socket 1", 1, 4)]),
            (
                [("policy", "pools"), ("pools", "front=1,heavy=1")],
                &[1, 1],
                [("pool front", 1, 4), ("pool heavy", 1, 6)],
            ),
        ] {
            let config = Config::from_pairs(settings).expect("a valid configuration");
            let found = PoolState::all(&Topology::new(sizes), &config, &[1, 2], &[3, 4], |_| true);
            let found: Vec<_> = found.iter().map(|pool| (&*pool.name, pool.workers.len(), pool.waiting)).collect();
            assert_eq!(found, expected);
        }
    }

    // Does a parked worker belong to no pool, so that it hides no stuck one?
    #[test]
    fn a_parked_worker_hides_no_stuck_one() {
        let metrics = WorkerMetrics::new(2);
        metrics.recorder(0).begin_slice(MS(100));
        for (parked, stuck) in [(None, false), (Some(1), true)] {
            let works = |worker: &usize| Some(*worker) != parked;
            let pools = PoolState::all(&Topology::new(&[2]), &Config::default(), &[0], &[0, 0], works);
            let found = Watch::new(2, Nanos::ZERO, MS(0)).look(&metrics, &pools, MS(5_000));
            assert_eq!(found.is_some(), stuck, "{parked:?}");
        }
    }

    // If all workers of a pool sleep, is it stuck if work has waited at every check, but not if it
    // has only just arrived?
    #[test]
    fn a_pool_is_stuck_when_nobody_comes_for_what_waits() {
        let metrics = WorkerMetrics::new(3);
        let mut recorder = metrics.recorder(0);
        let mut watch = Watch::new(3, Nanos::ZERO, MS(0));
        let mut look = |waiting, now| watch.look(&metrics, &pools(waiting), MS(now)).map(|stuck| stuck.still);
        assert_eq!(look([0, 0], 60_000), None, "asleep for long");
        assert_eq!(look([1, 0], 61_000), None, "it has only just come");
        assert_eq!(look([1, 0], 62_500), Some(MS(1_500)));
        recorder.turned();
        assert_eq!(look([1, 0], 63_000), None, "the worker has looked");
        assert_eq!(look([1, 0], 64_500), Some(MS(1_500)));
        assert_eq!(look([0, 0], 64_600), None);
        assert_eq!(look([1, 0], 64_700), None, "something else has come since");
    }

    // Does the log have one line when a pool gets stuck, and one when it moves again?
    #[test]
    fn a_stuck_pool_is_two_lines_in_the_log() {
        let metrics = WorkerMetrics::new(1);
        let mut recorder = metrics.recorder(0);
        let mut watch = Watch::new(1, Nanos::ZERO, MS(0));
        let pool = [PoolState { name: "the server".to_owned(), workers: vec![0], waiting: 0 }];
        for round in 1..=2 {
            let log = logged(|| {
                recorder.begin_slice(MS(10_000 * round));
                for now in [500, 1_500, 2_500, 3_500] {
                    watch.look(&metrics, &pool, MS(10_000 * round + now));
                }
                recorder.end_slice(MS(3_500));
                for now in [3_600, 3_700] {
                    watch.look(&metrics, &pool, MS(10_000 * round + now));
                }
            });
            let lines = |part: &str| log.lines().filter(|line| line.contains(part)).count();
            assert_eq!((lines("ERROR"), lines("no longer stuck")), (1, 1), "{log}");
        }
    }

    // With a time scale, may jobs take a scaled second between two checkpoints without counting as
    // stuck?
    #[test]
    fn steps_are_scaled() {
        let metrics = WorkerMetrics::new(1);
        let mut recorder = metrics.recorder(0);
        recorder.begin_slice(MS(1));
        let mut watch = Watch::new(1, Nanos::from_secs(10), MS(0));
        let pool = [PoolState { name: "the server".to_owned(), workers: vec![0], waiting: 0 }];
        assert_eq!(watch.look(&metrics, &pool, MS(9_000)), None);
        assert!(watch.look(&metrics, &pool, MS(11_000)).is_some());
    }

    // Does a worker count as standing still if it makes no turn, does not sleep, and its slice is
    // too long?
    #[test]
    fn what_stands_still_is_found() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [0, 1].map(|worker| metrics.recorder(worker));
        let mut watch = Watch::new(2, Nanos::ZERO, MS(0));
        let mut standing =
            |asleep: [bool; 2], bound, now| watch.look_for_standing(&metrics, |worker| asleep[worker], bound, now);
        assert_eq!(standing([true, true], MS(50), MS(1)), None, "asleep for long");
        assert_eq!(standing([true, false], MS(50), MS(2)), Some(1));
        recorders[1].turned();
        assert_eq!(standing([true, false], MS(50), MS(3)), None, "its loop has turned");
        assert_eq!(standing([true, false], MS(50), MS(4)), Some(1), "not since then");
        recorders[1].begin_slice(MS(5));
        assert_eq!(standing([true, false], MS(50), MS(54)), None, "in a job");
        assert_eq!(standing([true, false], MS(50), MS(55)), Some(1), "for too long");
        assert_eq!(standing([true, false], Nanos::ZERO, MS(9_999)), None, "no time is too long");
        recorders[1].end_slice(MS(60));
        recorders[1].begin_slice(MS(60));
        assert_eq!(standing([true, false], MS(50), MS(109)), None, "it has passed a checkpoint");
    }

    // After a worker has stood still, is the watchdog not fed until the worker moves, however often
    // it is checked?
    #[test]
    fn progress_counts_from_the_last_feed() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [0, 1].map(|worker| metrics.recorder(worker));
        let mut watch = Watch::new(2, Nanos::ZERO, MS(0));
        recorders[0].turned();
        for _ in 0..3 {
            assert_eq!(watch.look_for_standing(&metrics, |_| false, MS(50), MS(1)), Some(1));
        }
        recorders[1].turned();
        assert_eq!(
            watch.look_for_standing(&metrics, |_| false, MS(50), MS(1)),
            None,
            "both have moved since the last feed"
        );
    }
}
