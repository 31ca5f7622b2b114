//! Counters with one writer each, and consistent readings of them.
//!
//! Why `in_flight` is never negative. A worker adds to `received` before it passes a datagram on. The datagram reaches the
//! worker that ends it through a queue, whose push and pop synchronise. Only then that worker adds to the counter of its
//! fate. So the store to `received` happens before the store to the fate. A reader reads every fate of every worker first
//! (acquire) and `received` afterwards: whichever end it saw, it sees the matching arrival too. It may see arrivals whose
//! ends it missed; they count as in flight, as they were a moment before.

mod stretches;
mod unfinished;

pub(crate) use unfinished::Unfinished;

use crate::fate::{ClockAnomaly, Expired, Failed, Fate, Malformed, REASONS, ReceiveError, Refused, Unsent, labels};
use crate::time::{Nanos, clock};
use stretches::{Stretches, Tally};

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
        /// It waited for what could not wake it, or a part of its own or a queue on its way failed it.
        Aborted = "aborted",
        /// The server ended before it did.
        Stopped = "stopped",
        /// It was not accepted: too much was under way, or the server stopped.
        Refused = "refused",
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

/// Makes [`Counter`], and [`Counted`] for each worker and for the sums that a scrape shows. One row is a counter: its field
/// in [`Counted`], its name in [`Counter`], and the label that divides it.
///
/// A row under `fates` divides the fate of its name by reason (the reason after `=` is the default), on `/metrics`
/// within `forebay_datagrams`. Any other row is a family of `/metrics`: name without `_total`, and help.
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
            /// The counter of a datagram that ends as `fate` without a specific reason; `None` for a fate without
            /// reasons.
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
            #[inline]
            fn of(&self, counter: Counter) -> &Tally {
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
            /// The reasons of `fate` by name, and the number of occurrences of each; `None` for a fate without reasons.
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
        /// Datagrams that the kernel did not take: of the replies of requests that ended as [`Fate::Unsent`], and of answers
        /// to requests that were not served.
        unsent: Unsent(reason: Unsent) =
            "forebay_unsent", "Datagrams of replies and refusals that the kernel did not take, by reason";
        /// Calls to receive that failed.
        receive_errors: ReceiveErrors(reason: ReceiveError) =
            "forebay_receive_errors", "Calls to receive that failed, by reason; what waits in the socket stays there";
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
    /// Datagrams by `Fate as usize`; a fate with reasons stays 0 here, because its reasons are in `counted`.
    pub(super) ended: [Tally; Fate::ALL.len()],
    /// Datagrams rejected for reasons of the handler's own, by `Fate as usize` and then by reason. They are neither in
    /// `ended` nor in `counted`.
    pub(super) rejected: [[Tally; REASONS]; Fate::ALL.len()],
    counted: Counted<Tally>,
    /// Slices of jobs.
    pub(super) busy: Stretches,
    /// Times in which the worker found nothing to do, from the first search that found nothing to the last, or to the
    /// wake-up.
    pub(super) idle: Stretches,
    spent_ns: [Tally; Spent::ALL.len()],
    /// Turns of the worker's loop plus slices of its jobs: constant while the worker is stuck.
    pub(super) moves: Tally,
    /// Entries made in histograms: shows the control thread whether there is anything to ask for.
    pub(super) recorded: Tally,
}

impl WorkerCounters {
    /// Adds one to `counter`. Inlined where the counter is known, which leaves a single addition.
    #[inline]
    pub(super) fn count(&self, counter: Counter) {
        self.counted.of(counter).add(1);
    }

    #[inline]
    pub(super) fn spend(&self, on: Spent, time: Nanos) {
        self.spent_ns[on as usize].add(time.get());
    }
}

/// One reading of every worker's counters, summed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Datagrams received.
    pub received: u64,
    /// Datagrams by `Fate as usize`; a fate with reasons is the sum of its reasons, the handler's own among them.
    pub ended: [u64; Fate::ALL.len()],
    /// The part of `ended` that was rejected for reasons of the handler's own, by reason.
    pub rejected: [[u64; REASONS]; Fate::ALL.len()],
    /// All other counters.
    pub counted: Counted,
    /// Time spent on requests, by worker.
    pub busy: Vec<Nanos>,
    /// Time in which workers found nothing to do.
    pub idle: Nanos,
    spent_ns: [u64; Spent::ALL.len()],
}

impl Counts {
    /// Reads the counters of all workers, every fate before any `received` (see the top of this file).
    pub(super) fn read<'a>(workers: impl Iterator<Item = &'a WorkerCounters> + Clone) -> Counts {
        let mut counts = Counts::default();
        for worker in workers.clone() {
            sum_up(&mut counts.ended, &worker.ended);
            counts.rejected.iter_mut().zip(&worker.rejected).for_each(|(sums, tallies)| sum_up(sums, tallies));
            worker.counted.add_to(&mut counts.counted);
        }
        let now = clock::now();
        for fate in Fate::ALL {
            if let Some((_, reasons)) = counts.counted.reasons(fate) {
                counts.ended[fate as usize] = reasons.iter().sum();
            }
            counts.ended[fate as usize] += counts.rejected[fate as usize].iter().sum::<u64>();
        }
        for worker in workers {
            counts.received += worker.received.read();
            counts.busy.push(worker.busy.time(now));
            counts.idle = counts.idle.plus(worker.idle.time(now));
            sum_up(&mut counts.spent_ns, &worker.spent_ns);
        }
        counts
    }

    /// Adds `time` to what was spent on this.
    #[cfg(feature = "cli")]
    pub(super) fn spend(&mut self, on: Spent, time: Nanos) {
        self.spent_ns[on as usize] += time.get();
    }

    /// The time that all workers together spent on this.
    pub fn spent(&self, on: Spent) -> Nanos {
        Nanos::new(self.spent_ns[on as usize])
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
