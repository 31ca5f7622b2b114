//! The supervisor's watchdog, fed as long as every worker makes progress.
//!
//! A worker makes progress when its loop has turned since the last feed, or when it sleeps. So does one in a slice of
//! a job that has not lasted for `--unhealthy-after`. A long job passes checkpoints, and each begins a slice. A
//! sleeper for which requests wait is no progress either: `/healthz` says so after the same time.

use crate::metrics::WorkerMetrics;
use crate::server::admin::Probe as _;
use crate::server::admin::control::Control;
use crate::time::{Nanos, clock};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

/// How far each worker had come at the last feed.
#[derive(Debug)]
struct Progress {
    moves: Vec<u64>,
}

impl Progress {
    /// The first worker that has not moved since the last feed, and does not sleep. A worker in a slice that began
    /// less than `bound` ago does not count; zero is no bound. Without one, the next feed counts from here.
    fn standing(
        &mut self,
        metrics: &WorkerMetrics,
        is_asleep: impl Fn(usize) -> bool,
        bound: Nanos,
        now: Nanos,
    ) -> Option<usize> {
        let moves: Vec<u64> = (0..self.moves.len()).map(|worker| metrics.moves(worker)).collect();
        let stands = |worker: &usize| {
            let in_job = |since: Nanos| bound == Nanos::ZERO || now.minus(since) < bound;
            moves[*worker] == self.moves[*worker]
                && !metrics.running_since(*worker).is_some_and(in_job)
                && !is_asleep(*worker)
        };
        let standing = (0..moves.len()).find(stands);
        if standing.is_none() {
            self.moves = moves;
        }
        standing
    }
}

impl<J: Send> Control<'_, J> {
    /// Feeds the watchdog, until the other end of `ended` is dropped. During a stop it is fed always: the drain timeout
    /// bounds that.
    pub(super) fn feed_watchdog(&self, every: Nanos, ended: &Receiver<()>) {
        let mut progress = Progress { moves: vec![u64::MAX; self.bound.config.workers] };
        let mut starves = false;
        while ended.recv_timeout(every.into()) == Err(RecvTimeoutError::Timeout) {
            // Ordering: relaxed, see `be_lame_duck`.
            let stops = self.is_handed_over() || !self.ready.load(Ordering::Relaxed);
            let bound = self.live.load().unhealthy_after;
            let standing =
                progress.standing(&self.bound.metrics, |worker| self.shared.is_asleep(worker), bound, clock::now());
            let healthy = standing.is_none() && self.healthy().is_ok();
            if healthy || stops {
                self.bound.supervisor.feed_watchdog();
            } else if !starves {
                tracing::error!(worker = standing, "the watchdog is not fed: a worker makes no progress");
            }
            starves = !healthy && !stops;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    // Does a worker stand still that neither turns, nor sleeps, nor is in a slice that is not too long?
    #[test]
    fn what_stands_still_is_found() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [0, 1].map(|worker| metrics.recorder(worker));
        let mut progress = Progress { moves: vec![0; 2] };
        let mut standing =
            |asleep: [bool; 2], bound, now| progress.standing(&metrics, |worker| asleep[worker], bound, now);
        assert_eq!(standing([true, true], MS(50), MS(1)), None, "asleep for long");
        assert_eq!(standing([true, false], MS(50), MS(2)), Some(1));
        recorders[1].hand_over();
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

    // Does a worker that stood still once keep the watchdog hungry until it moves, however often it is looked at?
    #[test]
    fn progress_counts_from_the_last_feed() {
        let metrics = WorkerMetrics::new(2);
        let mut recorders = [0, 1].map(|worker| metrics.recorder(worker));
        let mut progress = Progress { moves: vec![0; 2] };
        recorders[0].hand_over();
        for _ in 0..3 {
            assert_eq!(progress.standing(&metrics, |_| false, MS(50), MS(1)), Some(1));
        }
        recorders[1].hand_over();
        assert_eq!(progress.standing(&metrics, |_| false, MS(50), MS(1)), None, "both have moved since the last feed");
    }
}
