//! The horizon: the time up to which all datagrams that came have entered their shards. A timer of
//! a shard fires once the horizon has passed its time. So it never overtakes a datagram that came
//! before, although the process or a thread had no CPU and the datagram waited in a socket.
//!
//! A worker that receives moves the horizon of that socket to the stamp of the last datagram. If
//! nothing more was there, it moves to the time of the worker's question. What the worker holds,
//! and has not brought to a shard yet, keeps the horizon back. Sockets that no worker has asked of
//! late are looked at when a timer is due.

use crate::runtime::continuation::lock;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How long timers wait for a socket that no worker empties: a worker may be in a request without
/// checkpoints, or have no CPU. A full socket holds 10,000 datagrams, and 25 us for each of them
/// are as long. Peers of sessions and connections are given longer.
const HOLD: Nanos = Nanos::from_millis(250);

/// How often sockets are looked at, on behalf of all workers. A look takes 0.3 us for each socket.
const LOOK_EVERY: Nanos = Nanos::from_micros(200);

/// The time of a worker that holds nothing.
const NOTHING: u64 = u64::MAX;

/// See the head of this file.
pub(crate) struct Horizon {
    /// For each socket a time, in ns: no worker will find a datagram in it that came before.
    sockets: Box<[CachePadded<AtomicU64>]>,
    /// For each worker a time, in ns: it holds no datagram that came before.
    workers: Box<[CachePadded<AtomicU64>]>,
    /// When a worker last looked at the sockets, in ns.
    looked_at: AtomicU64,
    hold: Mutex<Hold>,
}

/// The bound on how long timers wait.
#[derive(Debug, Default)]
struct Hold {
    /// Since when timers are held that were due by `noticed`.
    since: Option<Nanos>,
    noticed: Nanos,
    /// Timers up to this time have been held for long enough.
    over: Nanos,
}

impl Horizon {
    pub(crate) fn new(sockets: usize, workers: usize) -> Horizon {
        let times = |count, time| (0..count).map(|_| CachePadded::new(AtomicU64::new(time))).collect();
        Horizon {
            sockets: times(sockets, 0),
            workers: times(workers, NOTHING),
            looked_at: AtomicU64::new(0),
            hold: Mutex::default(),
        }
    }

    /// `worker` is about to receive from `socket`.
    #[inline]
    pub(crate) fn begin(&self, worker: usize, socket: usize) {
        let from = self.sockets[socket].load(Ordering::Relaxed);
        // Ordering: pairs with the load in `reach`. A worker that finds the socket empty because of
        // this worker's receive sees that this worker holds something.
        self.workers[worker].fetch_min(from, Ordering::SeqCst);
    }

    /// All that was in `socket` and came before `time` has been received, and what `worker` has
    /// received is in its shards.
    #[inline]
    pub(crate) fn end(&self, worker: usize, socket: usize, time: Nanos) {
        self.sockets[socket].fetch_max(time.get(), Ordering::Relaxed);
        // Ordering: pairs with the load in `reach`, which then sees both the time of the socket and
        // what waits for the shards.
        self.workers[worker].store(NOTHING, Ordering::Release);
    }

    /// `worker` holds nothing any more.
    pub(crate) fn holds_nothing(&self, worker: usize) {
        self.workers[worker].store(NOTHING, Ordering::Release);
    }

    /// The time up to which timers may fire at `now`, of which the earliest is `due`. `holds`
    /// returns whether the socket of this number holds datagrams.
    pub(crate) fn reach(&self, due: Nanos, now: Nanos, holds: impl Fn(usize) -> bool) -> Nanos {
        if due > now {
            return now;
        }
        let is_behind = |socket: &CachePadded<AtomicU64>| socket.load(Ordering::Relaxed) < due.get();
        if self.sockets.iter().any(is_behind) && self.looks(now) {
            for (number, socket) in self.sockets.iter().enumerate() {
                if is_behind(socket) && !holds(number) {
                    socket.fetch_max(now.get(), Ordering::Relaxed);
                }
            }
        }
        let earliest = |times: &[CachePadded<AtomicU64>]| {
            // Ordering: see `begin` and `end`.
            times.iter().map(|time| time.load(Ordering::SeqCst)).min().unwrap_or(NOTHING)
        };
        // Sockets first: a worker that has moved one since had noted before what it holds.
        let sockets = earliest(&self.sockets);
        let reached = Nanos::new(sockets.min(earliest(&self.workers))).min(now);
        lock(&self.hold).reach(due, now, reached)
    }

    /// Whether this worker is to look at the sockets now.
    fn looks(&self, now: Nanos) -> bool {
        let last = self.looked_at.load(Ordering::Relaxed);
        let is_time = now.minus(Nanos::new(last)) >= LOOK_EVERY || now.get() < last;
        // Ordering: relaxed. The exchange only decides which worker looks.
        is_time && self.looked_at.compare_exchange(last, now.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Hold {
    /// As [`Horizon::reach`], where the horizon is at `reached`.
    fn reach(&mut self, due: Nanos, now: Nanos, reached: Nanos) -> Nanos {
        if reached >= self.noticed {
            self.since = None;
        }
        match self.since {
            None if reached < due => (self.since, self.noticed) = (Some(now), now),
            Some(since) if now.minus(since) >= HOLD => {
                (self.over, self.since, self.noticed) = (self.noticed, Some(now), now);
            }
            _ => {}
        }
        reached.max(self.over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Nanos = Nanos::from_millis;

    // Does a timer wait while a socket holds what came before, or a worker has it in hand? Does it
    // wait for nothing else: for what came later, or for sockets that are empty?
    #[test]
    fn a_timer_waits_for_what_came_before() {
        let horizon = Horizon::new(2, 3);
        let due = MS(100);
        let reach = |now, held: [bool; 2]| horizon.reach(due, MS(now), |socket| held[socket]);
        assert_eq!(reach(90, [true; 2]), MS(90), "it is not due");
        assert_eq!(reach(101, [false; 2]), MS(101), "nothing waits");
        let horizon = Horizon::new(2, 3);
        let reach = |now, held: [bool; 2]| horizon.reach(due, MS(now), |socket| held[socket]);
        assert!(reach(101, [false, true]) < due);
        // Worker 2 takes the oldest out of it, worker 0 the rest.
        horizon.begin(2, 1);
        assert!(reach(102, [false; 2]) < due, "a worker has it in hand");
        horizon.begin(0, 1);
        horizon.end(0, 1, MS(102));
        assert!(reach(103, [false; 2]) < due, "the other one still has it in hand");
        horizon.end(2, 1, MS(40));
        assert!(reach(104, [true; 2]) >= due, "what is there now came later");
        // A full batch whose last datagram came before the time leaves others behind.
        let horizon = Horizon::new(1, 1);
        horizon.begin(0, 0);
        horizon.end(0, 0, MS(99));
        assert!(horizon.reach(due, MS(105), |_| true) < due);
        horizon.begin(0, 0);
        horizon.holds_nothing(0);
        horizon.end(0, 0, MS(101));
        assert_eq!(horizon.reach(due, MS(106), |_| true), MS(101));
    }

    // Is a timer held for twice the bound at most, where a socket is never emptied? Do others that
    // become due meanwhile wait no longer?
    #[test]
    fn no_timer_waits_for_long() {
        let horizon = Horizon::new(1, 1);
        let mut last = Nanos::ZERO;
        for now in 1_000..10_000 {
            let earliest = last.plus(MS(1));
            last = last.max(horizon.reach(earliest, MS(now), |_| true));
            assert!(now < 1_251 || MS(now).minus(last) <= HOLD.times(2), "{last} at {now} ms");
        }
        // In the end the socket is emptied, and no time is lost any more.
        horizon.begin(0, 0);
        horizon.end(0, 0, MS(10_000));
        assert_eq!(horizon.reach(MS(9_999), MS(10_001), |_| true), MS(10_000));
    }
}
