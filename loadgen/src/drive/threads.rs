//! The threads that send and receive: one each, or a single one for both if the server's workers
//! leave only one CPU.

use crate::drive::pacer::Pacer;
use crate::drive::receiver::{Receiver, Replies};
use crate::drive::sender::{Sender, Sent};
use crate::profile::Datagrams;
use anyhow::Result;
use forebay::output::unstarted;
use forebay::time::Nanos;
use std::thread;

/// What a sender and its receiver have recorded.
pub(crate) type Exchanged = (Sent, Replies);

/// Sends the requests with `sender`, as `datagrams`, and receives with `receiver` until no reply is
/// awaited any more, at most `timeout` after the last send. `spare_cpus` is the number of CPUs that
/// the server's workers do not use.
///
/// # Errors
/// If the kernel refuses to poll or to receive; then nothing more is sent.
pub(crate) fn exchange(
    sender: Sender<'_>,
    datagrams: Datagrams<'_>,
    receiver: Receiver<'_>,
    timeout: Nanos,
    spare_cpus: usize,
) -> Result<Exchanged> {
    if spare_cpus == 1 {
        return in_turn(sender, datagrams, receiver, timeout);
    }
    thread::scope(|scope| {
        let receiving = thread::Builder::new().name("receiver".to_owned()).spawn_scoped(scope, || {
            // Without replies the remaining requests need not be sent.
            receiver.receive(timeout, sender.interrupt).inspect_err(|_| sender.interrupt.raise())
        });
        let receiving = receiving.map_err(|error| unstarted("the receiver", &error))?;
        // Only now: the receiver would inherit the priority.
        let sent = sender.send(Pacer::start(spare_cpus > 1), datagrams, || {});
        Ok((sent, receiving.join().expect("the receiver does not panic")?))
    })
}

fn in_turn(
    sender: Sender<'_>,
    datagrams: Datagrams<'_>,
    mut receiver: Receiver<'_>,
    timeout: Nanos,
) -> Result<Exchanged> {
    let mut looked = Ok(());
    let sent = sender.send(Pacer::Alternating, datagrams, || {
        if looked.is_ok() {
            looked = receiver.look(sender.interrupt).inspect_err(|_| sender.interrupt.raise());
        }
    });
    looked?;
    Ok((sent, receiver.receive(timeout, sender.interrupt)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::flows;
    use crate::drive::live::Live;
    use crate::drive::retries::Clients;
    use crate::drive::schedule::Request;
    use crate::interrupt::Interrupt;
    use crate::plan::Retrying;
    use crate::profile::test_datagrams;
    use forebay::inside::wire::{Header, Kind, Status};
    use forebay::time::clock;
    use std::net::UdpSocket;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    const REQUESTS: usize = 100;

    /// Answers requests of the bench protocol until `is_over`, but the first ones to have the ids
    /// of `not`.
    fn answer(server: &UdpSocket, mut not: Vec<u64>, is_over: &AtomicBool) {
        let mut buffer = [0; 64];
        while !is_over.load(Ordering::Relaxed) {
            let Ok((bytes, peer)) = server.recv_from(&mut buffer) else { continue };
            let header = Header::parse(&buffer[..bytes]).expect("a request of the bench protocol");
            if let Some(at) = not.iter().position(|id| *id == header.id) {
                not.swap_remove(at);
                continue;
            }
            let reply = Header { kind: Kind::Reply, status: Status::Ok, ..header };
            server.send_to(&reply.emit(), peer).expect("a send on loopback");
        }
    }

    // Do one thread and two do the same: each request is sent, each reply heard, and what has no
    // answer sent again?
    #[test]
    fn one_thread_does_what_two_do() {
        for (spare_cpus, pacer) in [(1, Some(Pacer::Alternating)), (2, Some(Pacer::Spinning)), (0, None)] {
            let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
            server.set_read_timeout(Some(Duration::from_millis(20))).expect("a time above zero");
            let sockets = flows::open(server.local_addr().expect("an address"), 2, None).expect("two flows");
            let at = |index: usize| Nanos::from_micros(500).times(index as u64);
            let request = |index| Request { at: at(index), cost: Nanos::new(1), flow: (index % 2) as u16, class: 0 };
            let schedule: Vec<Request> = (0..REQUESTS).map(request).collect();
            let (live, interrupt, is_over) = (Live::default(), Interrupt::default(), AtomicBool::new(false));
            let start = clock::now().plus(Nanos::from_millis(20));
            let retrying = Retrying { max: 20, backoff: Nanos::from_millis(1) };
            // The clients' patience: an answer comes at once, but for a machine that compiles
            // meanwhile.
            let patience = Nanos::from_millis(10);
            let clients = Clients::new(&schedule, retrying, 1, start, Nanos::ZERO, patience);
            let datagrams = test_datagrams(7 << 8);
            let receiver = Receiver::new(&sockets, 0..2, clients, datagrams, &live).expect("a poll of two flows");
            let sender = Sender { schedule: &schedule, sockets: &sockets, start, live: &live, interrupt: &interrupt };
            let (sent, replies) = thread::scope(|scope| {
                scope.spawn(|| answer(&server, vec![0, 7], &is_over));
                let exchanged = exchange(sender, datagrams, receiver, Nanos::from_secs(1), spare_cpus);
                is_over.store(true, Ordering::Relaxed);
                exchanged.expect("a kernel that polls")
            });
            assert_eq!((sent.slips.len(), live.replied()), (REQUESTS, REQUESTS as u64), "{spare_cpus} to spare");
            assert!(replies.last.iter().all(Option::is_some) && replies.taken >= 2, "{spare_cpus} to spare");
            assert!(pacer.is_none_or(|pacer| sent.pacer == pacer), "{spare_cpus} to spare: {}", sent.pacer);
        }
    }
}
