//! The pacer: how the sending thread waits for the time of each request, and how it gets a CPU in
//! time.
//!
//! A thread that wakes on time still has to get a CPU. Where workers burn all of them, the kernel
//! lets a worker finish its turn of some milliseconds first, and the schedule slips by as much. A
//! thread of real-time priority does not wait for ordinary threads. If it kept its CPU, ordinary
//! threads would never run again. So it sleeps between its sends, and never spins.

use crate::interrupt::Interrupt;
use forebay::time::{Nanos, clock};
use nix::sys::prctl::set_timerslack;
use serde::Serialize;
use std::fmt;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

/// How the sending thread gets its CPU in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pacer {
    /// It sleeps, and runs before every ordinary thread when it wakes (`SCHED_FIFO`, the lowest
    /// real-time priority).
    RealTime,
    /// It sleeps, and takes its turn when it wakes: real-time priority was refused.
    #[default]
    Ordinary,
    /// It spins through the last microseconds, on a CPU that neither workers nor receiver need.
    Spinning,
    /// It never sleeps and receives between its sends, on the one CPU that the workers leave over.
    /// Two threads would hold each other up there. A thread that sleeps is late by the time that an
    /// idle CPU takes to wake. On virtual machines that is tens of microseconds, more than many
    /// requests take.
    Alternating,
}

/// Spun instead of slept before a send: about the time a sleeping thread takes to wake.
const SPIN: Nanos = Nanos::from_micros(50);
/// The longest sleep, so that an interrupt is noticed.
const SLEEP_MAX: Nanos = Nanos::from_millis(50);

impl Pacer {
    /// Makes the calling thread a pacer until it ends, beside a thread that receives; `may_spin`
    /// says whether each has a CPU of its own.
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

    /// Returns the time once `intended` has come, or `None` when interrupted before. A pacer that
    /// alternates calls `between` until then, and once where it is late already: a sender that is
    /// behind must not stop receiving.
    pub(crate) fn wait_until(self, intended: Nanos, interrupt: &Interrupt, mut between: impl FnMut()) -> Option<Nanos> {
        let spin = match self {
            Pacer::RealTime | Pacer::Ordinary => Nanos::ZERO,
            Pacer::Spinning => SPIN,
            Pacer::Alternating => Nanos::MAX,
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
