//! Measures the costs of a running job: yields, looks, notices and checkpoints.

use super::{StepSamples, samples};
use forebay::checkpoint;
use forebay::inside::runtime::yields;
use forebay::inside::runtime::{arrivals, probe_notices};
use forebay::inside::sched::bounds::LOOK_MAX;
use forebay::tasks::Runtime;
use forebay::time::{Nanos, clock};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::{io, thread};

/// Runs in one sample.
const RUNS: u64 = 1_000;

/// Measures each step on a thread that no other thread disturbs.
///
/// # Errors
/// When the system provides no sockets or readiness queues.
pub(super) fn measure(part: usize) -> io::Result<[StepSamples; 4]> {
    let count = 300 / part;
    let ingress = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let notice = if probe_notices().is_ok() { notices(&ingress, count)? } else { Vec::new() };
    let watched = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    watched.add(&ingress, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    let one = Runtime::builder().pool("one", 1).slice(Nanos::from_secs(1)).build().map_err(io::Error::other)?;
    Ok([
        ("yield", samples(count, 1, || Ok(yields::mean_time()))?),
        ("look", samples(count, RUNS, || Ok(looks(&watched)))?),
        ("notice", notice),
        ("checkpoint", samples(count, RUNS, || checkpoints(&one))?),
    ])
}

/// The time of [`RUNS`] looks: polls of the watch set that find nothing.
fn looks(watched: &Epoll) -> Nanos {
    let start = clock::now();
    for _ in 0..RUNS {
        let _ = black_box(watched.wait(&mut [EpollEvent::empty(); LOOK_MAX], EpollTimeout::ZERO));
    }
    clock::now().minus(start)
}

/// The time for [`RUNS`] checkpoints of a task, none of which pauses it.
fn checkpoints(one: &Runtime) -> io::Result<Nanos> {
    let passed = one.spawn_future(async {
        let start = clock::now();
        for _ in 0..RUNS {
            checkpoint().await;
        }
        clock::now().minus(start)
    });
    passed.join().map_err(io::Error::other)
}

fn notices(ingress: &UdpSocket, count: usize) -> io::Result<Vec<f64>> {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(ingress.local_addr()?)?;
    let arrive = || drop(sender.send(&[0]));
    let drain = || drop(ingress.recv(&mut [0; 8]));
    let measure = || arrivals::notices(ingress.as_fd(), count, arrive, drain);
    let taken = thread::scope(|scope| scope.spawn(measure).join());
    let taken = taken.map_err(|_| io::Error::other("taking the kernel's notices panicked"))??;
    // Each sample includes two readings of the clock, which are too cheap to subtract.
    Ok(taken.into_iter().map(|time| time.get() as f64).collect())
}
