//! Whether datagrams can be received and sent at all, as the workers find: what `/readyz` and the log say of it.
//!
//! A single call may fail, and the next one does not: those are counted by reason. What fails again and again for a second
//! makes the server not ready. Workers write, each to lines of its own and only then when a call fails or has failed before;
//! the admin thread reads once a second and when it is asked.

use crate::fate::{ReceiveError, Unsent};
use crate::metrics::Failures;
use crate::time::Nanos;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A failure that has lasted for so long is one of the system, and none of a moment.
const LASTING: Nanos = Nanos::from_secs(1);
/// A failure that was not seen again for so long is over: nobody receives there any more. A worker that fails is woken to
/// try again every second.
const FORGOTTEN_AFTER: Nanos = Nanos::from_secs(5);

/// What all threads found.
#[derive(Debug)]
pub(crate) struct Transport {
    threads: Box<[CachePadded<Directions>]>,
}

/// What one thread found, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Directions {
    pub(crate) receiving: Streak,
    pub(crate) sending: Streak,
}

/// Failures without a success between them.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    /// When the first one was, in nanoseconds; 0 after a success.
    since: AtomicU64,
    /// When the last one was.
    last: AtomicU64,
    /// Its reason, by number.
    reason: AtomicUsize,
}

impl Transport {
    /// For so many workers, and the thread that stops them.
    pub(crate) fn new(workers: usize) -> Transport {
        Transport { threads: (0..=workers).map(|_| CachePadded::default()).collect() }
    }

    /// What `worker` writes to.
    pub(crate) fn of(&self, worker: usize) -> &Directions {
        &self.threads[worker]
    }

    /// What keeps the server from being ready, for people.
    pub(crate) fn trouble(&self, now: Nanos) -> Option<String> {
        self.threads.iter().enumerate().find_map(|(worker, found)| {
            let receiving = found.receiving.lasting(now).map(|reason| ("receiving", ReceiveError::ALL[reason].name()));
            let sending = || found.sending.lasting(now).map(|reason| ("sending", Unsent::ALL[reason].name()));
            let (action, reason) = receiving.or_else(sending)?;
            Some(format!("{action} fails on worker {worker}: {reason}"))
        })
    }

    /// The workers whose last attempt to receive failed. They must try again: nothing else would ever wake them.
    pub(crate) fn deaf(&self, now: Nanos) -> impl Iterator<Item = usize> {
        let failing =
            move |(worker, found): (usize, &CachePadded<Directions>)| found.receiving.fails(now).then_some(worker);
        self.threads.iter().enumerate().filter_map(failing)
    }
}

impl Streak {
    /// A call failed.
    #[cold]
    pub(crate) fn failed(&self, now: Nanos, reason: usize) {
        // Ordering: relaxed throughout, one writer; a reader that sees them apart errs by one failure.
        if self.since.load(Ordering::Relaxed) == 0 {
            self.since.store(now.get().max(1), Ordering::Relaxed);
        }
        self.last.store(now.get(), Ordering::Relaxed);
        self.reason.store(reason, Ordering::Relaxed);
    }

    /// A call succeeded. One load, nearly always.
    #[inline]
    pub(crate) fn succeeded(&self) {
        if self.since.load(Ordering::Relaxed) != 0 {
            self.since.store(0, Ordering::Relaxed);
        }
    }

    /// Whether the last call failed, not long ago.
    fn fails(&self, now: Nanos) -> bool {
        let last = Nanos::new(self.last.load(Ordering::Relaxed));
        self.since.load(Ordering::Relaxed) != 0 && now.minus(last) < FORGOTTEN_AFTER
    }

    /// The reason of failures that last.
    fn lasting(&self, now: Nanos) -> Option<usize> {
        let (since, last) = (self.since.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        let lasting = self.fails(now) && Nanos::new(last).minus(Nanos::new(since)) >= LASTING;
        lasting.then(|| self.reason.load(Ordering::Relaxed))
    }
}

/// Says in the log what has failed, at most once in each call.
#[derive(Debug, Default)]
pub(crate) struct Said {
    receiving: [u64; ReceiveError::ALL.len()],
    sending: [u64; Unsent::ALL.len()],
}

impl Said {
    /// One line for what has failed to be received since the last call, and one for what has failed to be sent.
    pub(crate) fn say(&mut self, counts: &Failures) {
        let names = ReceiveError::ALL.map(ReceiveError::name);
        if let Some(more) = more(&names, &mut self.receiving, &counts.receiving) {
            tracing::warn!(reasons = more, "datagrams cannot be received");
        }
        let names = Unsent::ALL.map(Unsent::name);
        if let Some(more) = more(&names, &mut self.sending, &counts.sending) {
            tracing::warn!(reasons = more, "the kernel did not take replies");
        }
    }
}

/// What has come to `now` since it was `last`, by name: `denied 3, other 1`.
fn more<const N: usize>(names: &[&str; N], last: &mut [u64; N], now: &[u64; N]) -> Option<String> {
    let grown = names.iter().zip(last.iter().zip(now)).filter(|(_, (last, now))| now > last);
    let text: Vec<String> = grown.map(|(name, (last, now))| format!("{name} {}", now - last)).collect();
    *last = *now;
    (!text.is_empty()).then(|| text.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos::from_secs(100).plus(Nanos::from_millis(millis))
    }

    // Is one failure nothing, a second of them a reason, and one success the end of it?
    #[test]
    fn only_failures_that_last_keep_a_server_from_being_ready() {
        let transport = Transport::new(2);
        let receiving = &transport.of(1).receiving;
        receiving.failed(at(0), ReceiveError::NoMemory as usize);
        receiving.failed(at(900), ReceiveError::NoMemory as usize);
        assert_eq!((transport.trouble(at(900)), transport.deaf(at(900)).collect::<Vec<_>>()), (None, vec![1]));
        receiving.failed(at(1_000), ReceiveError::Denied as usize);
        assert_eq!(transport.trouble(at(1_100)).as_deref(), Some("receiving fails on worker 1: denied"));
        receiving.succeeded();
        assert_eq!((transport.trouble(at(1_100)), transport.deaf(at(1_100)).next()), (None, None));
        receiving.failed(at(1_200), ReceiveError::Denied as usize);
        assert_eq!(transport.trouble(at(1_200)), None, "a failure long ago does not count");
    }

    // Does a server become ready again whose deaf worker has come to a pool that receives nothing?
    #[test]
    fn failures_of_long_ago_are_over() {
        let transport = Transport::new(1);
        let sending = &transport.of(0).sending;
        [0, 1_000].into_iter().for_each(|millis| sending.failed(at(millis), Unsent::Other as usize));
        assert_eq!(transport.trouble(at(2_000)).as_deref(), Some("sending fails on worker 0: other"));
        assert_eq!(transport.trouble(at(6_000)), None);
    }

    #[test]
    fn the_log_is_told_what_is_new() {
        let (mut last, names) = ([0; 3], ["a", "b", "c"]);
        assert_eq!(more(&names, &mut last, &[0, 0, 0]), None);
        assert_eq!(more(&names, &mut last, &[2, 0, 1]).as_deref(), Some("a 2, c 1"));
        assert_eq!(more(&names, &mut last, &[2, 0, 4]).as_deref(), Some("c 3"));
        assert_eq!(more(&names, &mut last, &[2, 0, 4]), None);
    }
}
