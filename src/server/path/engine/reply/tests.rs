//! Which replies leave when, by which socket, and what is counted.

use super::*;
use crate::fate::Unsent;
use crate::metrics::{Spent, WorkerMetrics};
use crate::net::{Datagram, Outcomes};
use crate::runtime::queue::ObjectPool;
use crate::server::path::packet::PacketBody;
use crate::time::ThreadUse;
use std::io;

/// A link to two sockets. The first takes no datagram of one byte, and the second takes nothing.
/// Each call has the socket and the lengths of its messages.
#[derive(Default)]
struct HalfOpen {
    calls: Vec<(usize, Vec<usize>)>,
}

impl Link for HalfOpen {
    type Socket = usize;

    fn now() -> Nanos {
        clock::now()
    }

    fn used(_: Nanos) -> ThreadUse {
        clock::use_of_thread()
    }

    fn receive<'b>(&mut self, _: &usize, _: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        Ok(0)
    }

    fn datagrams(&self) -> &[Datagram] {
        &[]
    }

    fn left(&self) -> usize {
        0
    }

    fn discard(&mut self) {}

    fn holds(&self, _: &usize) -> bool {
        false
    }

    fn send(&mut self, socket: &usize, messages: &[Message<'_>], _: Nanos) -> Outcomes {
        self.calls.push((*socket, messages.iter().map(|message| message.bytes.len()).collect()));
        let takes = |message: &Message<'_>| *socket == 0 && message.bytes.len() > 1;
        messages.iter().map(|message| if takes(message) { Ok(()) } else { Err(Unsent::Denied) }).collect()
    }
}

fn pool() -> ObjectPool<PacketBody<()>> {
    ObjectPool::new(SEND_BATCH_MAX, |number| PacketBody::new(number, 64))
}

/// A packet whose reply, of a request to this address, has this length.
fn packet<'s>(pool: &'s ObjectPool<PacketBody<()>>, address: u8, length: usize) -> Packet<'s, ()> {
    let mut packet = pool.acquire().expect("there is one");
    (packet.reply_len, packet.envelope.source.address) = (length, address);
    packet
}

// Does each reply leave by the socket of its address, in order? Is one counted as answered if the
// kernel has taken it, and else as unsent, with its time unanswered?
#[test]
fn replies_leave_by_address() {
    let (pool, metrics) = (pool(), WorkerMetrics::new(1));
    let mut recorder = metrics.recorder(0);
    let mut outbox = Outbox::new();
    let answers = [(1, 1), (0, 2), (1, 4), (0, 1), (0, 8)];
    for ((address, length), service_us) in answers.into_iter().zip([1, 10, 100, 1_000, 10_000]) {
        let sample = Sample { service: Nanos::from_micros(service_us), ..Sample::default() };
        outbox.put(packet(&pool, address, length), Some((sample, Nanos::ZERO)));
    }
    [(0, 9), (1, 11)].into_iter().for_each(|(address, length)| outbox.put(packet(&pool, address, length), None));
    recorder.received(7);
    let (mut link, mut home) = (HalfOpen::default(), 0);
    outbox.flush(&mut link, &[0, 1], &mut recorder, Nanos::ZERO, |_| home += 1);
    assert_eq!(link.calls, [(0, vec![2, 1, 8, 9]), (1, vec![1, 4, 11])]);
    assert_eq!((home, outbox.is_empty()), (7, true));
    let (_, ends) = metrics.ends();
    assert_eq!((ends[Fate::Answered as usize], ends[Fate::Unsent as usize]), (2, 3));
    assert_eq!(metrics.counts().counted.unsent[Unsent::Denied as usize], 4);
    assert_eq!(metrics.counts().spent(Spent::Unanswered), Nanos::from_micros(1_101), "the time of what was not sent");
}
