//! Measures the CPU time that it costs to learn of an arrival, for policies and for `loadgen
//! calibrate`.

use super::notice::{self, Flag, Looks};
use super::sleep::idle::Readiness;
use super::sleep::readiness::Descriptors;
use crate::clock;
use crate::sched::Watch;
use crate::time::Nanos;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread;

/// Number of notices in one measurement, which takes about 100 us.
const NOTICES_MEASURED: usize = 32;

/// CPU time on this host to take a notice of the kernel and to ask for the next one. It is the
/// least of many measurements, because other activity only adds time. Zero if the kernel gives no
/// notices.
pub fn measured_notice() -> Nanos {
    let measure = || -> io::Result<Nanos> {
        let (mut receiver, mut sender) = io::pipe()?;
        // A second descriptor for the same pipe, because the first is used to read from it.
        let ingress = receiver.as_fd().try_clone_to_owned()?;
        let (arrive, drain) = (|| drop(sender.write(b"x")), || drop(receiver.read(&mut [0; 8])));
        Ok(notices(ingress.as_fd(), NOTICES_MEASURED, arrive, drain)?.into_iter().min().unwrap_or(Nanos::ZERO))
    };
    // On a thread of its own, as `notices` requires. If the measurement fails, the cost counts as
    // zero.
    let measured =
        notice::probe().and_then(|()| thread::Builder::new().spawn(measure)?.join().unwrap_or(Ok(Nanos::ZERO)));
    measured.unwrap_or(Nanos::ZERO)
}

/// Measures `count` times how long it takes to receive the kernel's notice of an arrival at
/// `ingress` and to ask for the next. `arrive` makes an arrival, and `drain` takes it out of the
/// ingress. Call this on a separate thread, because to close a ring interrupts the thread's next
/// waiting system call.
///
/// # Errors
/// When the kernel has no descriptors left for readiness queues.
pub fn notices(
    ingress: BorrowedFd<'_>,
    count: usize,
    mut arrive: impl FnMut(),
    mut drain: impl FnMut(),
) -> io::Result<Vec<Nanos>> {
    let descriptors = Descriptors::new(1, &[ingress])?;
    descriptors.watch(0, true);
    let _open = notice::open(Flag::default(), Arc::clone(&descriptors.watch_set), Looks::default(), true);
    notice::begin(Watch::Notices);
    let notice = |_| {
        arrive();
        let raised = clock::now();
        let _ = notice::take();
        let taken = clock::now();
        drain();
        let drained = clock::now();
        notice::begin(Watch::Notices);
        taken.minus(raised).plus(clock::now().minus(drained))
    };
    Ok((0..count).map(notice).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    // If the kernel gives notices, one takes at least three system calls.
    #[test]
    fn a_notice_costs_more_than_nothing_and_less_than_a_wake_up_on_a_slow_machine() {
        let cost = measured_notice();
        assert_eq!(cost > Nanos::ZERO, notice::probe().is_ok());
        assert!(cost < Nanos::from_micros(200), "{cost}");
    }
}
