//! Counters that have one writer each, and consistent readings of them.
//!
//! Why `in_flight` is never negative: a worker adds to `received` before it passes a datagram on.
//! The datagram reaches the worker that ends it through a queue, whose push and pop synchronise.
//! This worker then adds to the fate's counter. So the store to `received` happens before the store
//! to the fate. A reader first reads all fates of all workers (acquire), then `received`. So for
//! every end that it counts, it also counts the arrival. Arrivals whose end it does not see yet
//! count as in flight.

use crate::fate::{
    ClockAnomaly, Expired, Failed, Fate, Malformed, REASONS, ReceiveError, Refused, ShardEvent, ShardSend, Unsent,
    labels,
};
use crate::time::Nanos;
use forebay_clock as clock;
use std::sync::atomic::{AtomicU64, Ordering};

labels! {
    /// The result of an attempt to take work from another worker.
    Steal {
        /// The thief took jobs from a deque.
        Found = "found",
        /// The steal failed: the victim's deque was empty.
        Empty = "empty",
        /// Another thief was taking from the deque.
        Contended = "contended",
        /// The thief received datagrams from the socket of a busy worker.
        SocketFound = "socket_found",
        /// The socket of the busy worker was empty.
        SocketEmpty = "socket_empty",
    }
    /// How a piece of work ended that another thread spawned on the workers.
    SpawnEnd {
        /// The work returned its result.
        Finished = "finished",
        /// The work panicked.
        Panicked = "panicked",
        /// The work failed: nothing could wake it any more, a child failed, or a queue was full.
        Aborted = "aborted",
        /// The server ended before the work did.
        Stopped = "stopped",
        /// The work was not accepted: too much was in progress, or the server was stopping.
        Refused = "refused",
    }
    /// Why an answer counts as too late.
    Late {
        /// The answer came after the deadline of its request.
        Deadline = "deadline",
        /// The wait was longer than clients wait for an answer.
        Patience = "patience",
    }
    /// Times that workers add up, besides the time in handlers.
    Spent {
        /// Time that emulated cores slept in place of work.
        Slept = "slept",
        /// Time that emulated cores slept longer than asked.
        Overslept = "overslept",
        /// CPU time that emulated cores are charged for steps between jobs.
        Charged = "charged",
        /// CPU time of requests that were not answered.
        Unanswered = "unanswered",
        /// CPU time of requests that were answered too late.
        Late = "late",
        /// CPU time of slices that passed checkpoints.
        Interruptible = "interruptible",
    }
    /// Why a request left its worker before its end.
    Continuation {
        /// The policy took the worker back at a checkpoint.
        Yield = "yield",
        /// The handler moved to another pool.
        Hop = "hop",
        /// The request waited for a child.
        Join = "join",
    }
}

/// Makes [`CounterName`] and [`Counted`]. Each row is a counter: its field in [`Counted`], its name
/// in [`CounterName`], and the label that divides it.
///
/// A row under `fates` divides a fate by reason, within `forebay_datagrams` on `/metrics`; the
/// reason after `=` is the default. Every other row is a family of `/metrics`, with its name
/// (without `_total`) and its help.
macro_rules! counters {
    (
        fates { $($(#[$about_reason:meta])* $reasons:ident: $Fate:ident($reason:ident = $untold:ident);)+ }
        families {
            $($(#[$about:meta])* $field:ident: $CounterName:ident($label:ident: $type:ident) = $name:literal, $help:literal;)+
        }
    ) => {
        /// Names a counter that workers keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum CounterName {
            $($(#[$about_reason])* $Fate($reason),)+
            $($(#[$about])* $CounterName($type),)+
        }

        impl CounterName {
            /// The counter for a datagram that ends as `fate` without a specific reason; `None` for
            /// a fate without reasons.
            pub(super) const fn of_fate(fate: Fate) -> Option<CounterName> {
                match fate {
                    $(Fate::$Fate => Some(CounterName::$Fate($reason::$untold)),)+
                    _ => None,
                }
            }
        }

        /// The counters of one worker, or the sums over all workers. Each array is in the order of
        /// its label's `ALL`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counted<T = u64> {
            $($(#[$about_reason])* pub $reasons: [T; $reason::ALL.len()],)+
            $($(#[$about])* pub $field: [T; $type::ALL.len()],)+
        }

        impl Counted<Tally> {
            /// The tally of `counter`. Inlined, so that a known counter costs a single addition.
            #[inline]
            pub(super) fn of(&self, counter: CounterName) -> &Tally {
                match counter {
                    $(CounterName::$Fate(reason) => &self.$reasons[reason as usize],)+
                    $(CounterName::$CounterName($label) => &self.$field[$label as usize],)+
                }
            }

            fn add_to(&self, sums: &mut Counted) {
                $(sum_up(&mut sums.$reasons, &self.$reasons);)+
                $(sum_up(&mut sums.$field, &self.$field);)+
            }
        }

        impl Counted {
            /// The names and counts of the reasons of `fate`; `None` for a fate without reasons.
            pub(super) fn reasons(&self, fate: Fate) -> Option<(&'static [&'static str], &[u64])> {
                match fate {
                    $(Fate::$Fate => Some((&$reason::NAMES, &self.$reasons)),)+
                    _ => None,
                }
            }

            /// The families of `/metrics`: name, help, label, its values, and the count of each
            /// value.
            #[cfg(feature = "admin")]
            pub(super) fn families(&self) -> impl Iterator<Item = CounterFamily<'_>> {
                [$(($name, $help, stringify!($label), &$type::NAMES[..], &self.$field[..]),)+].into_iter()
            }
        }
    };
}

counters! {
    fates {
        /// Datagrams that ended as [`Fate::Malformed`].
        malformed: Malformed(Malformed = Other);
        /// Datagrams that ended as [`Fate::Refused`].
        refused: Refused(Refused = Other);
        /// Datagrams that ended as [`Fate::ShedExpired`].
        expired: ShedExpired(Expired = Passed);
        /// Datagrams that ended as [`Fate::Failed`].
        failed: Failed(Failed = Panic);
    }
    families {
        /// Datagrams that the kernel did not take: replies of requests that ended as
        /// [`Fate::Unsent`], and refusals.
        unsent: Unsent(reason: Unsent) =
            "forebay_unsent", "Datagrams of replies and refusals that the kernel did not take, by reason";
        /// Failed system calls to receive.
        receive_errors: ReceiveErrors(reason: ReceiveError) =
            "forebay_receive_errors", "Calls to receive that failed, by reason; what waits in the socket stays there";
        /// Requests that were answered too late. They are included in [`Fate::Answered`].
        answered_late: AnsweredLate(reason: Late) =
            "forebay_answered_late", "Requests that were answered after their deadline, or later than clients wait, by reason";
        /// Datagrams with an impossible age, which was clamped.
        clock_anomalies: ClockAnomalies(reason: ClockAnomaly) =
            "forebay_clock_anomalies", "Datagrams whose age by the receive stamp cannot be true and was clamped, by reason";
        /// Attempts to take work from another worker.
        steals: Steals(result: Steal) =
            "forebay_steals", "Attempts to take work from another worker's deque or socket, by result";
        /// Times that a request left its worker before its end.
        continuations: Continuations(reason: Continuation) =
            "forebay_continuations", "Times that a request left its worker before its end, by reason";
        /// Events of shards, which are no datagrams. They count as received, and end with a fate.
        shard_events: ShardEvents(kind: ShardEvent) =
            "forebay_shard_events", "Events of shards and requests that they began, which count as received, by kind";
        /// Datagrams that shards sent besides replies.
        shard_datagrams: ShardDatagrams(result: ShardSend) =
            "forebay_shard_datagrams", "Datagrams that shards sent beside replies, and calls to send that were refused, by result";
    }
}

/// A family of counters on `/metrics`: name, help, label, the label's values, counts.
#[cfg(feature = "admin")]
type CounterFamily<'a> = (&'static str, &'static str, &'static str, &'static [&'static str], &'a [u64]);

/// The counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(super) struct WorkerCounters {
    pub(super) received: Tally,
    /// Datagrams by `Fate as usize`. A fate with reasons stays 0 here, because `counted` has its
    /// parts.
    pub(super) ended: [Tally; Fate::ALL.len()],
    /// Datagrams that the handler rejected for its own reasons, by `Fate as usize`, then by reason.
    /// They are in neither `ended` nor `counted`.
    pub(super) rejected: [[Tally; REASONS]; Fate::ALL.len()],
    pub(super) counted: Counted<Tally>,
    /// Times in which the worker ran jobs.
    pub(super) busy: Stretches,
    /// Times in which the worker was idle: from the first search that found nothing until the last
    /// one, or until the wake-up.
    pub(super) idle: Stretches,
    pub(super) spent_ns: [Tally; Spent::ALL.len()],
    /// Turns of the worker's loop. The count does not grow while the worker is stuck.
    pub(super) moves: Tally,
}

/// The counters of all workers, read once and summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// When the counters were read.
    pub at: Nanos,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams by `Fate as usize`. A fate with reasons is the sum of all its reasons, the
    /// handler's own included.
    pub ended: [u64; Fate::ALL.len()],
    /// The part of `ended` that the handler rejected for its own reasons, by fate and reason.
    pub rejected: [[u64; REASONS]; Fate::ALL.len()],
    /// All other counters, summed over the workers.
    pub counted: Counted,
    /// Time spent on requests, by worker.
    pub busy: Vec<Nanos>,
    /// Time in which workers were idle, summed.
    pub idle: Nanos,
    pub(super) spent_ns: [u64; Spent::ALL.len()],
}

impl Counts {
    /// Reads the counters of all workers: first all fates, then `received`. The top of this file
    /// says why.
    pub(super) fn read<'a>(workers: impl Iterator<Item = &'a WorkerCounters> + Clone) -> Counts {
        let mut counts = Counts::default();
        for worker in workers.clone() {
            sum_up(&mut counts.ended, &worker.ended);
            counts.rejected.iter_mut().zip(&worker.rejected).for_each(|(sums, tallies)| sum_up(sums, tallies));
            worker.counted.add_to(&mut counts.counted);
        }
        counts.at = clock::now();
        for fate in Fate::ALL {
            if let Some((_, reasons)) = counts.counted.reasons(fate) {
                counts.ended[fate as usize] = reasons.iter().sum();
            }
            counts.ended[fate as usize] += counts.rejected[fate as usize].iter().sum::<u64>();
        }
        for worker in workers {
            counts.received += worker.received.read();
            counts.busy.push(worker.busy.time(counts.at));
            counts.idle = counts.idle.plus(worker.idle.time(counts.at));
            sum_up(&mut counts.spent_ns, &worker.spent_ns);
        }
        counts
    }

    /// The time that all workers together spent on this.
    pub fn spent(&self, on: Spent) -> Nanos {
        Nanos::new(self.spent_ns[on as usize])
    }

    /// CPU time of all workers for requests that were not answered in time.
    pub fn wasted(&self) -> Nanos {
        self.spent(Spent::Unanswered).plus(self.spent(Spent::Late))
    }

    /// CPU time of all workers for requests.
    pub fn worked(&self) -> Nanos {
        self.busy.iter().copied().fold(Nanos::ZERO, Nanos::plus)
    }
}

fn sum_up<const N: usize>(sums: &mut [u64; N], tallies: &[Tally; N]) {
    // Indexed, because with two iterators an unoptimised build is three times as slow.
    for number in 0..N {
        sums[number] += tallies[number].read();
    }
}

/// A counter that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    /// Adds `amount`. Only the counter's writer may call this. It uses a load and a store, because
    /// an atomic read-modify-write costs five times as much.
    pub(super) fn add(&self, amount: u64) {
        // Ordering: relaxed. The only writer reads its own last store.
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        // Ordering: release, pairs with the acquire in `read`. A reader that sees this count sees
        // all that its writer did before. Otherwise it could count an end without its arrival.
        self.0.store(sum, Ordering::Release);
    }

    /// The count; it may be a moment old.
    pub(super) fn read(&self) -> u64 {
        // Ordering: acquire, pairs with the release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// Adds up stretches of one worker's time, such as the time in handlers. The worker alone writes
/// it; any thread may read it at any time.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    ended_ns: Tally,
    /// Start of the current stretch in nanoseconds; 0 = none.
    since: AtomicU64,
    /// The largest time that was returned to any reader.
    shown: AtomicU64,
}

impl Stretches {
    /// Begins a stretch at `now`.
    #[inline]
    pub(super) fn begin(&self, now: Nanos) {
        // Ordering: relaxed. If a reader sees it late, it reads a little too little time for a
        // moment.
        self.since.store(now.get().max(1), Ordering::Relaxed);
    }

    /// Ends the current stretch of busy or idle time, which lasted for `time`.
    #[inline]
    pub(super) fn end(&self, time: Nanos) {
        // Ordering: relaxed. The release in `add` orders this store before the sum. So a reader
        // whose sum includes this stretch no longer sees the stretch's start.
        self.since.store(0, Ordering::Relaxed);
        self.ended_ns.add(time.get());
    }

    /// Start of the current stretch; `None` outside of one.
    pub(super) fn since(&self) -> Option<Nanos> {
        // Ordering: relaxed, because it is a hint that may be a moment old.
        let since = self.since.load(Ordering::Relaxed);
        (since != 0).then(|| Nanos::new(since))
    }

    /// The time of all stretches up to `now`, the current one included. `now` was read before the
    /// call.
    ///
    /// The sum is read before the start of the current stretch, so no stretch counts twice. A
    /// stretch that ends between the two reads is missed. Therefore the result is raised to the
    /// largest one returned before, so that it never falls.
    pub(super) fn time(&self, now: Nanos) -> Nanos {
        let ended = Nanos::new(self.ended_ns.read());
        let time = ended.plus(self.since().map_or(Nanos::ZERO, |since| now.minus(since)));
        // Ordering: relaxed, because readers share only this one value.
        let shown = self.shown.fetch_max(time.get(), Ordering::Relaxed);
        time.max(Nanos::new(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the current stretch count, once? Does the sum never fall?
    #[test]
    fn a_stretch_counts_while_it_lasts() {
        let us = Nanos::from_micros;
        let slices = Stretches::default();
        assert_eq!((slices.time(us(5)), slices.since()), (Nanos::ZERO, None));
        slices.begin(us(10));
        assert_eq!((slices.time(us(17)), slices.since()), (us(7), Some(us(10))));
        slices.end(us(8));
        assert_eq!((slices.time(us(40)), slices.since()), (us(8), None));
        slices.begin(us(50));
        assert_eq!(slices.time(us(45)), us(8), "it began after the clock was read");
        assert_eq!(slices.time(us(60)), us(18));
        // An emulated core ends a slice by its own clock, before its thread wakes.
        slices.end(us(9));
        assert_eq!(slices.time(us(70)), us(18), "it never falls");
    }
}
