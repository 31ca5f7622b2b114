//! The pacer: how the sending thread waits for the time of each request, and how it gets a CPU in
//! time.
//!
//! A thread that wakes on time still has to get a CPU. If workers burn CPU time on all CPUs, the
//! kernel lets a worker run on for some milliseconds first, and the schedule slips. A thread with
//! real-time priority runs before ordinary threads. It must sleep between its sends and never spin,
//! because ordinary threads on its CPU could not run otherwise.

use crate::interrupt::Interrupt;
use forebay::time::{Nanos, clock};
use nix::sys::prctl::set_timerslack;
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// How a sending thread gets its CPU in time. Those of one run differ only if the system refuses
/// some of them real-time priority; the largest is the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pacer {
    /// It sleeps between sends. When it wakes it runs before every ordinary thread (`SCHED_FIFO`,
    /// the lowest real-time priority).
    RealTime,
    /// It sleeps between sends and competes with other threads: the system refused real-time
    /// priority.
    #[default]
    Ordinary,
    /// It spins for the last microseconds, on a CPU that neither workers nor receiver need.
    Spinning,
    /// It never sleeps, and receives between its sends, on the one CPU that the workers leave free.
    /// Two threads would delay each other there. A sleeping thread would be late by the wake-up of
    /// an idle CPU. On virtual machines this takes tens of microseconds, more than many requests.
    Alternating,
}

/// The last part of a wait, which is spun: about the time that a sleeping thread takes to wake.
const SPIN: Nanos = Nanos::from_micros(50);
/// The longest sleep, so that an interrupt is noticed.
const SLEEP_MAX: Nanos = Nanos::from_millis(50);

impl Pacer {
    /// Makes the calling thread a pacer until it ends, beside a thread that receives. `may_spin`
    /// says whether each of the two has a CPU of its own.
    pub(crate) fn start(may_spin: bool) -> Pacer {
        // Without it the kernel may wake a sleeper 50 us late, to save power. If refused, the slip
        // shows it.
        let _ = set_timerslack(1);
        if may_spin {
            return Pacer::Spinning;
        }
        let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
        match set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo) {
            Ok(()) => Pacer::RealTime,
            Err(_) => Pacer::Ordinary,
        }
    }

    /// Whether it sleeps up to the time of each request.
    pub(crate) const fn sleeps(self) -> bool {
        matches!(self, Pacer::RealTime | Pacer::Ordinary)
    }

    /// Waits until `intended` and returns the time, or `None` when interrupted before. A pacer that
    /// alternates calls `between` meanwhile. It does so once even if it is late, because a late
    /// sender must not stop receiving.
    pub(crate) fn wait_until(self, intended: Nanos, interrupt: &Interrupt, mut between: impl FnMut()) -> Option<Nanos> {
        let spin = match self {
            _ if self.sleeps() => Nanos::ZERO,
            Pacer::Spinning => SPIN,
            _ => Nanos::MAX,
        };
        loop {
            if self == Pacer::Alternating {
                between();
            }
            let now = clock::now();
            let left = intended.minus(now);
            if interrupt.is_raised() {
                return None;
            }
            if left == Nanos::ZERO {
                return Some(now);
            }
            if left > spin {
                std::thread::sleep(left.minus(spin).min(SLEEP_MAX).into());
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Advice for a schedule that this pacer could not keep.
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Pacer::Ordinary => "let it have real-time priority (run as root, or `setcap cap_sys_nice+ep` this binary)",
            Pacer::RealTime | Pacer::Spinning | Pacer::Alternating => {
                "lower --rate or --load, or leave the machine more to itself"
            }
        }
    }
}

impl fmt::Display for Pacer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pacer::RealTime => "real-time priority",
            Pacer::Ordinary => "ordinary priority (CAP_SYS_NICE would let it keep its schedule better)",
            Pacer::Spinning => "ordinary priority, spinning on a CPU to spare",
            Pacer::Alternating => "ordinary priority, sending and receiving in turn on the one CPU to spare",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Pacer; 4] = [Pacer::RealTime, Pacer::Ordinary, Pacer::Spinning, Pacer::Alternating];

    #[test]
    fn no_pacer_is_early_and_all_heed_an_interrupt() {
        let interrupt = Interrupt::default();
        for pacer in ALL {
            let intended = clock::now().plus(Nanos::from_micros(200));
            let came = pacer.wait_until(intended, &interrupt, || {}).expect("not interrupted");
            assert!(came >= intended, "{pacer}: {came} is before {intended}");
        }
        interrupt.raise();
        for pacer in ALL {
            assert_eq!(pacer.wait_until(Nanos::MAX, &interrupt, || {}), None, "{pacer}");
            assert_eq!(pacer.wait_until(Nanos::ZERO, &interrupt, || {}), None, "{pacer}, late as it is");
        }
    }

    // Is something received between any two sends, also by a sender that is late?
    #[test]
    fn a_pacer_that_is_alone_receives_between_its_sends() {
        for pacer in ALL {
            let mut received = 0;
            for _ in 0..3 {
                pacer.wait_until(Nanos::ZERO, &Interrupt::default(), || received += 1);
            }
            assert_eq!(received, if pacer == Pacer::Alternating { 3 } else { 0 }, "{pacer}");
        }
    }
}
