//! What a running job pays: readings of the clock, checkpoints, yields, looks and notices.

use super::{Effort, Row, Samples};
use crate::handler::builtin::Burner;
use crate::handler::checkpoint;
use crate::runtime::arrivals::Arrivals;
use crate::runtime::continuation::{Limits, Polled, Terms, poll};
use crate::server::yields;
use crate::time::{Nanos, clock};
use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::task::Waker;
use std::{io, thread};

/// Runs in one sample.
const RUNS: u64 = 1_000;

/// A short request.
const SPIN: Nanos = Nanos::from_micros(10);

/// A distance between arrivals at which workers want the kernel's notices.
const RARE: Nanos = Nanos::from_micros(500);

/// What steps of a running job take, each on a thread that nothing disturbs.
///
/// # Errors
/// When the system has no sockets or readiness queues for it.
pub(super) fn measure(effort: Effort) -> io::Result<[Row; 6]> {
    let count = effort.samples(300);
    let ingress = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let arrivals = Arrivals::watch(ingress.as_raw_fd())?;
    let has_notices = crate::runtime::notice::probe().is_ok();
    let notice = has_notices.then(|| notices(&arrivals, &ingress, count)).transpose()?;
    let looks = Samples::take(count, RUNS, || time_of(|| arrivals.look()));
    Ok([
        Row::step("yield", Samples::take(count, 1, yields::mean_time), "pause, queue, resume"),
        Row::step("look", looks, "at the sockets of busy workers, from within a job"),
        Row::step("notice", notice, "taking the kernel's notice, and asking for the next"),
        Row::step("checkpoint", Samples::take(count, RUNS, checkpoints), "one that finds nothing"),
        Row::beside("clock", Samples::take(count, RUNS, || time_of(clock::now)), "one reading"),
        Row::beside(
            "spin",
            spins(effort.samples(2_000)),
            "10us of the same work: how exact a measured service time is",
        ),
    ])
}

/// Time of [`RUNS`] runs of `step`.
fn time_of<R>(mut step: impl FnMut() -> R) -> Nanos {
    let start = clock::now();
    for _ in 0..RUNS {
        black_box(step());
    }
    clock::now().minus(start)
}

/// Time of a handler that passes [`RUNS`] checkpoints.
fn checkpoints() -> Nanos {
    let limits = Limits { ask_at: Nanos::MAX, expires_at: Nanos::MAX };
    let handler = pin!(async {
        for _ in 0..RUNS {
            checkpoint().await;
        }
    });
    let start = clock::now();
    let (waker, waiter) = (Waker::noop(), &mut None);
    let terms = Terms { start, limits, waker, waiter, tokens: &[], wakes_anywhere: false };
    let polled = poll(handler, terms);
    assert!(matches!(polled.0, Polled::Ended(())), "nothing makes it pause");
    clock::now().minus(start)
}

/// Times of a computation that takes [`SPIN`] undisturbed.
fn spins(count: usize) -> Samples {
    let burner = Burner::calibrated();
    Samples::take(count, 1, || {
        let start = clock::now();
        burner.burn(SPIN);
        clock::now().minus(start)
    })
}

fn notices(arrivals: &Arrivals, ingress: &UdpSocket, count: usize) -> io::Result<Samples> {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(ingress.local_addr()?)?;
    // Where arrivals are close, a worker looks for them instead.
    let arrive = || {
        let due = clock::now().plus(RARE);
        while clock::now() < due {
            std::hint::spin_loop();
        }
        drop(sender.send(&[0]));
    };
    let drain = || drop(ingress.recv(&mut [0; 8]));
    let taken = thread::scope(|scope| scope.spawn(|| arrivals.notices(count, arrive, drain)).join());
    let taken = taken.map_err(|_| io::Error::other("taking the kernel's notices panicked"))?;
    // Two readings of the clock beside each are not worth taking off.
    Ok(Samples::of(taken.into_iter().map(|time| time.get() as f64)))
}
