//! What a running job pays: checkpoints, yields, looks and notices.

use super::{Row, samples};
use forebay::inside::runtime::arrivals::Arrivals;
use forebay::inside::runtime::probe_notices;
use forebay::inside::yields;
use forebay::time::{Nanos, clock};
use std::hint::black_box;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::{io, thread};

/// Runs in one sample.
const RUNS: u64 = 1_000;

/// What steps of a running job take, each on a thread that nothing disturbs.
///
/// # Errors
/// When the system has no sockets or readiness queues for it.
pub(super) fn measure(part: usize) -> io::Result<[Row; 4]> {
    let count = 300 / part;
    let ingress = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let arrivals = Arrivals::watch(ingress.as_fd())?;
    let has_notices = probe_notices().is_ok();
    let notice = if has_notices { notices(&arrivals, &ingress, count)? } else { Vec::new() };
    Ok([
        ("yield", samples(count, 1, || Ok(yields::mean_time()))?),
        ("look", samples(count, RUNS, || Ok(looks(&arrivals)))?),
        ("notice", notice),
        ("checkpoint", samples(count, RUNS, || Ok(yields::checkpoints(RUNS)))?),
    ])
}

/// Time of [`RUNS`] looks.
fn looks(arrivals: &Arrivals) -> Nanos {
    let start = clock::now();
    for _ in 0..RUNS {
        black_box(arrivals.look());
    }
    clock::now().minus(start)
}

fn notices(arrivals: &Arrivals, ingress: &UdpSocket, count: usize) -> io::Result<Vec<f64>> {
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(ingress.local_addr()?)?;
    let arrive = || drop(sender.send(&[0]));
    let drain = || drop(ingress.recv(&mut [0; 8]));
    let taken = thread::scope(|scope| scope.spawn(|| arrivals.notices(count, arrive, drain)).join());
    let taken = taken.map_err(|_| io::Error::other("taking the kernel's notices panicked"))?;
    // Two readings of the clock beside each are not worth taking off.
    Ok(taken.into_iter().map(|time| time.get() as f64).collect())
}
