//! Measures the cost of a request beside its work, on a server of one worker. The client spins
//! instead of sleeping, because otherwise the server would pay for waking it.

use super::network::BYTES;
use super::{StepSamples, cpus, quartiles, samples};
use forebay::handler::{Reply, Request, handler_fn};
use forebay::server::Server;
use forebay::time::{Nanos, clock};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::{hint, io, thread};

/// The work of a request. It is so long that the reply is not sent together with others.
const WORK: Nanos = Nanos::from_micros(20);
/// Requests outstanding at a time, so that the worker never waits for the client.
const WINDOW: usize = 8;
/// Requests in one sample.
const REQUESTS: u64 = 200;
/// A reply that takes longer counts as lost.
const PATIENCE: Nanos = Nanos::from_secs(5);

/// The cost of sending one reply: the time of a request minus its work and its `receive`. This
/// difference includes all other steps of the server, with caches that the work has emptied.
/// Unknown if client and server share one CPU.
///
/// # Errors
/// When the system provides no sockets or threads.
pub(super) fn send(part: usize, receive: &StepSamples) -> io::Result<StepSamples> {
    let [_, receive, _] = quartiles(&receive.1).unwrap_or_default();
    let known = WORK.plus(receive).get() as f64;
    let served = if cpus() > 1 { served(200 / part)? } else { Vec::new() };
    Ok(("send", served.into_iter().map(|time| time - known).collect()))
}

/// Measures the time of a request; returns `count` samples.
fn served(count: usize) -> io::Result<Vec<f64>> {
    let server = Server::builder()
        .listen((Ipv4Addr::LOCALHOST, 0).into())
        .admin(None)
        .workers(1)
        .set("policy", "global")
        .set("wait", "spin")
        .bind()
        .map_err(io::Error::other)?;
    let (address, stop) = (server.udp_address(), server.stop_handle());
    let works = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
        let end = clock::now().plus(WORK);
        while clock::now() < end {
            hint::spin_loop();
        }
        reply.put(request.bytes()).expect("it is as long as the request");
    });
    thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&works));
        let times = asked(address, count);
        stop.stop();
        serving.join().expect("the server does not panic").map_err(io::Error::other)?;
        times
    })
}

/// Keeps [`WINDOW`] requests outstanding at the server at `address`: each answer is followed by a
/// new request. Returns `count` samples of the time per answer. It spins, because the server would
/// pay for waking this thread.
fn asked(address: SocketAddr, count: usize) -> io::Result<Vec<f64>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(address)?;
    socket.set_nonblocking(true)?;
    let ask = || socket.send(&[0; BYTES]).map(drop);
    let next = || {
        let end = clock::now().plus(PATIENCE);
        while socket.recv(&mut [0; BYTES]).is_err() {
            if clock::now() > end {
                return Err(io::Error::other("loopback has lost a datagram"));
            }
        }
        ask()
    };
    (0..WINDOW).try_for_each(|_| ask())?;
    samples(count, REQUESTS, || {
        let start = clock::now();
        (0..REQUESTS).try_for_each(|_| next())?;
        Ok(clock::now().minus(start))
    })
}
