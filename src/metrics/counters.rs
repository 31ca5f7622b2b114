//! Counters with one writer each, and consistent readings of them.
//!
//! Why `in_flight` is never negative. A worker adds to `received` before it passes a datagram on.
//! The datagram reaches the worker that ends it through a queue, whose push and pop synchronise.
//! Only then that worker adds to the counter of its fate. So the store to `received` happens before
//! the store to the fate. A reader reads every fate of every worker first (acquire) and `received`
//! afterwards: whichever end it saw, it sees the matching arrival too. It may see arrivals whose
//! ends it missed; they count as in flight, as they were a moment before.

use crate::fate::{ClockAnomaly, Expired, Failed, Fate, Malformed, REASONS, ReceiveError, Refused, Unsent, labels};
use crate::time::{Nanos, clock};
use std::sync::atomic::{AtomicU64, Ordering};

labels! {
    /// Result of an attempt to take work from another worker.
    Steal {
        /// Jobs were taken from a deque.
        Found = "found",
        /// The deque was empty.
        Empty = "empty",
        /// Another thief was at the deque.
        Contended = "contended",
        /// Datagrams were received from a busy victim's socket.
        SocketFound = "socket_found",
        /// A busy victim's socket was empty.
        SocketEmpty = "socket_empty",
    }
    /// What became of work that other threads put on the workers.
    SpawnEnd {
        /// It came to its result.
        Finished = "finished",
        /// It panicked.
        Panicked = "panicked",
        /// It waited for what could not wake it, or a part of its own or a queue on its way failed
        /// it.
        Aborted = "aborted",
        /// The server ended before it did.
        Stopped = "stopped",
        /// It was not accepted: too much was under way, or the server stopped.
        Refused = "refused",
    }
    /// Why an answer came too late.
    Late {
        /// After the deadline of its request.
        Deadline = "deadline",
        /// After a wait that is longer than clients wait.
        Patience = "patience",
    }
    /// What a time is spent on that workers sum up, beside the slices of their jobs.
    Spent {
        /// Sleep of emulated cores in place of work.
        Slept = "slept",
        /// Sleep of emulated cores beyond what was asked.
        Overslept = "overslept",
        /// What emulated cores are charged for steps between jobs.
        Charged = "charged",
        /// Requests that were not answered.
        Unanswered = "unanswered",
        /// Requests that were answered too late.
        Late = "late",
        /// Slices that passed checkpoints.
        Interruptible = "interruptible",
    }
    /// Why a request left its worker before its end.
    Continuation {
        /// The policy wanted the worker back at a checkpoint.
        Yield = "yield",
        /// The handler asked for another pool.
        Hop = "hop",
        /// The child that the request waited for has ended.
        Join = "join",
    }
}

/// Makes [`Counter`], and [`Counted`] for each worker and for the sums that a scrape shows. One row
/// is a counter: its field in [`Counted`], its name in [`Counter`], and the label that divides it.
///
/// A row under `fates` divides the fate of its name by reason (the reason after `=` is the
/// default), on `/metrics` within `forebay_datagrams`. Any other row is a family of `/metrics`:
/// name without `_total`, and help.
macro_rules! counters {
    (
        fates { $($(#[$about_reason:meta])* $reasons:ident: $Fate:ident($reason:ident = $untold:ident);)+ }
        families {
            $($(#[$about:meta])* $field:ident: $Counter:ident($label:ident: $type:ident) = $name:literal, $help:literal;)+
        }
    ) => {
        /// A counter that workers keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Counter {
            $($(#[$about_reason])* $Fate($reason),)+
            $($(#[$about])* $Counter($type),)+
        }

        impl Counter {
            /// The counter of a datagram that ends as `fate` without a specific reason; `None` for
            /// a fate without reasons.
            pub(super) const fn of_fate(fate: Fate) -> Option<Counter> {
                match fate {
                    $(Fate::$Fate => Some(Counter::$Fate($reason::$untold)),)+
                    _ => None,
                }
            }
        }

        /// The counters of all workers together, each in the order of its label's `ALL`.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counted<T = u64> {
            $($(#[$about_reason])* pub $reasons: [T; $reason::ALL.len()],)+
            $($(#[$about])* pub $field: [T; $type::ALL.len()],)+
        }

        impl Counted<Tally> {
            /// Inlined where the counter is known, which leaves a single addition.
            #[inline]
            pub(super) fn of(&self, counter: Counter) -> &Tally {
                match counter {
                    $(Counter::$Fate(reason) => &self.$reasons[reason as usize],)+
                    $(Counter::$Counter($label) => &self.$field[$label as usize],)+
                }
            }

            fn add_to(&self, sums: &mut Counted) {
                $(sum_up(&mut sums.$reasons, &self.$reasons);)+
                $(sum_up(&mut sums.$field, &self.$field);)+
            }
        }

        impl Counted {
            /// The reasons of `fate` by name, and the number of occurrences of each; `None` for a
            /// fate without reasons.
            pub(super) fn reasons(&self, fate: Fate) -> Option<(&'static [&'static str], &[u64])> {
                match fate {
                    $(Fate::$Fate => Some((&$reason::NAMES, &self.$reasons)),)+
                    _ => None,
                }
            }

            /// The families of `/metrics`: name, help, label, its values, and the count of each.
            #[cfg(feature = "admin")]
            pub(super) fn families(&self) -> impl Iterator<Item = Family<'_>> {
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
        /// Datagrams that the kernel did not take: of the replies of requests that ended as
        /// [`Fate::Unsent`], and of answers to requests that were not served.
        unsent: Unsent(reason: Unsent) =
            "forebay_unsent", "Datagrams of replies and refusals that the kernel did not take, by reason";
        /// Calls to receive that failed.
        receive_errors: ReceiveErrors(reason: ReceiveError) =
            "forebay_receive_errors", "Calls to receive that failed, by reason; what waits in the socket stays there";
        /// Requests that were answered too late: a part of those that ended as [`Fate::Answered`].
        answered_late: AnsweredLate(reason: Late) =
            "forebay_answered_late", "Requests that were answered after their deadline, or later than clients wait, by reason";
        /// Datagrams whose age cannot be true, and was clamped.
        clock_anomalies: ClockAnomalies(reason: ClockAnomaly) =
            "forebay_clock_anomalies", "Datagrams whose age by the receive stamp cannot be true and was clamped, by reason";
        /// Attempts to find work at another worker.
        steals: Steals(result: Steal) =
            "forebay_steals", "Attempts to take work from another worker's deque or socket, by result";
        /// Requests that left a worker before their end.
        continuations: Continuations(reason: Continuation) =
            "forebay_continuations", "Times that a request left its worker before its end, by reason";
    }
}

/// A family of counters on `/metrics`.
#[cfg(feature = "admin")]
type Family<'a> = (&'static str, &'static str, &'static str, &'static [&'static str], &'a [u64]);

/// The counters of one worker, written by it alone.
#[derive(Debug, Default)]
pub(super) struct WorkerCounters {
    pub(super) received: Tally,
    /// Datagrams by `Fate as usize`; a fate with reasons stays 0 here, because its reasons are in
    /// `counted`.
    pub(super) ended: [Tally; Fate::ALL.len()],
    /// Datagrams rejected for reasons of the handler's own, by `Fate as usize` and then by reason.
    /// They are neither in `ended` nor in `counted`.
    pub(super) rejected: [[Tally; REASONS]; Fate::ALL.len()],
    pub(super) counted: Counted<Tally>,
    /// Slices of jobs.
    pub(super) busy: Stretches,
    /// Times in which the worker found nothing to do, from the first search that found nothing to
    /// the last, or to the wake-up.
    pub(super) idle: Stretches,
    pub(super) spent_ns: [Tally; Spent::ALL.len()],
    /// Turns of the worker's loop: constant while the worker is stuck.
    pub(super) moves: Tally,
}

/// One reading of every worker's counters, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// When they were read.
    pub at: Nanos,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams by `Fate as usize`; a fate with reasons is the sum of its reasons, the handler's
    /// own among them.
    pub ended: [u64; Fate::ALL.len()],
    /// The part of `ended` that was rejected for reasons of the handler's own, by reason.
    pub rejected: [[u64; REASONS]; Fate::ALL.len()],
    /// All other counters.
    pub counted: Counted,
    /// Time spent on requests, by worker.
    pub busy: Vec<Nanos>,
    /// Time in which workers found nothing to do.
    pub idle: Nanos,
    pub(super) spent_ns: [u64; Spent::ALL.len()],
}

impl Counts {
    /// Reads the counters of all workers, every fate before any `received` (see the top of this
    /// file).
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

    /// The time that all workers together spent on requests that were not answered in time.
    pub fn wasted(&self) -> Nanos {
        self.spent(Spent::Unanswered).plus(self.spent(Spent::Late))
    }

    /// The time that all workers together spent on requests.
    pub fn worked(&self) -> Nanos {
        self.busy.iter().copied().fold(Nanos::ZERO, Nanos::plus)
    }
}

fn sum_up<const N: usize>(sums: &mut [u64; N], tallies: &[Tally; N]) {
    // An unoptimised build takes three times as long for two iterators.
    for number in 0..N {
        sums[number] += tallies[number].read();
    }
}

/// A counter that one thread writes and any thread may read.
#[derive(Debug, Default)]
pub(super) struct Tally(AtomicU64);

impl Tally {
    /// Adds `amount`. Only the owner of the counter may call this. It is a load and a store: a
    /// read-modify-write locks the cache line at five times the cost.
    pub(super) fn add(&self, amount: u64) {
        // Ordering: relaxed, the only writer reads its own last store.
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(amount);
        // Ordering: release, pairs with the acquire in `read`: a reader that sees this count also
        // sees what its writer did and saw before. Without it a fate could be seen and its arrival
        // not.
        self.0.store(sum, Ordering::Release);
    }

    /// The count, at most as stale as the reader's view of that cache line.
    pub(super) fn read(&self) -> u64 {
        // Ordering: acquire, pairs with the release in `add`.
        self.0.load(Ordering::Acquire)
    }
}

/// The stretches of one worker: written by it alone, read by any thread at any time.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    ended_ns: Tally,
    /// Start of the present stretch in nanoseconds; 0 outside of one.
    since: AtomicU64,
    /// The largest time returned to a reader so far.
    shown: AtomicU64,
}

impl Stretches {
    /// A stretch begins at `now`.
    #[inline]
    pub(super) fn begin(&self, now: Nanos) {
        // Ordering: relaxed, a reader that sees it late shows less time for a moment.
        self.since.store(now.get().max(1), Ordering::Relaxed);
    }

    /// The present stretch ends, having lasted for `time`.
    #[inline]
    pub(super) fn end(&self, time: Nanos) {
        // Ordering: relaxed, the release in `add` orders it before the sum. A reader of a sum with
        // this stretch does not read the start of the stretch afterwards.
        self.since.store(0, Ordering::Relaxed);
        self.ended_ns.add(time.get());
    }

    /// Start of the present stretch; `None` outside of one.
    pub(super) fn since(&self) -> Option<Nanos> {
        // Ordering: relaxed, a hint of a moment ago.
        let since = self.since.load(Ordering::Relaxed);
        (since != 0).then(|| Nanos::new(since))
    }

    /// The time of all stretches up to `now`, which was read before the call, including the present
    /// one.
    ///
    /// The sum is read before the start of the stretch. A stretch that is in the sum is then never
    /// counted again. One that ends in between is not seen. Then the largest value returned so far
    /// stands in for it, so that the result never falls.
    pub(super) fn time(&self, now: Nanos) -> Nanos {
        let ended = Nanos::new(self.ended_ns.read());
        let time = ended.plus(self.since().map_or(Nanos::ZERO, |since| now.minus(since)));
        // Ordering: relaxed, one value among readers.
        let shown = self.shown.fetch_max(time.get(), Ordering::Relaxed);
        time.max(Nanos::new(shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does the time of the present stretch count, once, and does the sum never fall?
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
