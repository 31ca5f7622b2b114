//! Outgoing replies: kept until a batch is full or a reply would have to wait for other work.

pub(crate) mod credit;
pub(super) mod gathering;
pub(super) mod thread_use;

use crate::fate::Fate;
use crate::metrics::{Counter, Recorder, Sample};
use crate::net::{Link, Message, Outcomes, SEND_BATCH_MAX};
use crate::server::path::packet::{Packet, Source};
use crate::server::path::transport::{Directions, Streak};
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use crossbeam_utils::CachePadded;
use std::iter::repeat_n;

/// The replies of one worker.
pub(crate) struct Outbox<'s, T> {
    /// Number of datagrams in all replies together.
    datagrams: usize,
    answers: ArrayVec<Answer<'s, T>, SEND_BATCH_MAX>,
    /// Packets with the replies to requests that were not served; their fates are counted already.
    refusals: ArrayVec<Packet<'s, T>, SEND_BATCH_MAX>,
}

/// The reply to a request that was served, in its packet. Counted once the kernel has taken it, with all its datagrams.
struct Answer<'s, T> {
    packet: Packet<'s, T>,
    sample: Sample,
    finished_at: Nanos,
}

impl<'s, T: Copy + Default> Outbox<'s, T> {
    pub(crate) fn new() -> Outbox<'s, T> {
        Outbox { datagrams: 0, answers: ArrayVec::new(), refusals: ArrayVec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.datagrams == 0
    }

    /// When the answer was finished that has waited longest; `None` if no answer waits.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.answers.first().map(|answer| answer.finished_at)
    }

    /// Whether the datagrams of the reply in `packet` can still be sent together with all that wait.
    pub(crate) fn has_room(&self, packet: &Packet<'s, T>) -> bool {
        self.datagrams + packet.extents.datagrams() <= SEND_BATCH_MAX
    }

    /// Number of replies that wait to be sent, to requests that were not served.
    #[cfg(all(test, feature = "cli"))]
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.len()
    }

    /// Number of datagrams that wait to be sent.
    pub(crate) fn datagrams(&self) -> usize {
        self.datagrams
    }

    /// Adds the reply in `packet`, finished at `finished_at`; `sample` lacks only the time to send it. The outbox must
    /// have room.
    pub(crate) fn answer(&mut self, packet: Packet<'s, T>, sample: Sample, finished_at: Nanos) {
        self.datagrams += packet.extents.datagrams();
        self.answers.push(Answer { packet, sample, finished_at });
    }

    /// Adds the reply in `packet` to a request that was not served. The outbox must have room.
    pub(crate) fn refusal(&mut self, packet: Packet<'s, T>) {
        self.datagrams += packet.extents.datagrams();
        self.refusals.push(packet);
    }

    /// Sends everything through `sockets` of `link`, one for each address, records the requests served, and gives the
    /// packets to `recycle`. If the kernel takes nothing, probes whether it would take anything, and tells `sending`, one
    /// for each address. Returns the time after the send.
    pub(crate) fn flush<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        sockets: &[S],
        recorder: &mut Recorder<'_>,
        sending: &[CachePadded<Directions>],
        mut recycle: impl FnMut(Packet<'s, T>),
    ) -> Nanos {
        let outcomes = {
            // Filled in place: moving an `ArrayVec` copies its whole capacity.
            let mut messages = ArrayVec::<Message<'_>, SEND_BATCH_MAX>::new();
            messages.extend(self.answers.iter().flat_map(|answer| messages_of(&answer.packet)));
            messages.extend(self.refusals.iter().flat_map(messages_of));
            match sockets {
                [socket] => send(link, socket, &messages, &sending[0].sending),
                _ => self.send_by_address(link, sockets, &messages, sending),
            }
        };
        let now = clock::now();
        outcomes.iter().filter_map(|outcome| outcome.err()).for_each(|reason| recorder.count(Counter::Unsent(reason)));
        let mut rest = outcomes.as_slice();
        for answer in self.answers.drain(..) {
            let (own, others) = rest.split_at(answer.packet.extents.datagrams());
            rest = others;
            if own.iter().all(Result::is_ok) {
                recorder.answered(&Sample { send: now.minus(answer.finished_at), ..answer.sample });
            } else {
                recorder.unanswered(answer.sample.class, answer.sample.service);
                recorder.ended(Fate::Unsent);
            }
            recycle(answer.packet);
        }
        // A refusal keeps its fate, whether it was sent or not.
        self.refusals.drain(..).for_each(recycle);
        self.datagrams = 0;
        now
    }

    /// Sends `messages`, the datagrams of all replies in their order, each through the socket of the address that its request
    /// came to.
    fn send_by_address<S>(
        &self,
        link: &mut impl Link<Socket = S>,
        sockets: &[S],
        messages: &[Message<'_>],
        sending: &[CachePadded<Directions>],
    ) -> Outcomes {
        let packets = self.answers.iter().map(|answer| &answer.packet).chain(&self.refusals);
        let address_of =
            |packet: &Packet<'s, T>| repeat_n(usize::from(packet.envelope.source.address), packet.extents.datagrams());
        let addresses: ArrayVec<usize, SEND_BATCH_MAX> = packets.flat_map(address_of).collect();
        let mut outcomes: Outcomes = messages.iter().map(|_| Ok(())).collect();
        for (address, socket) in sockets.iter().enumerate() {
            let of_address = || (0..messages.len()).filter(|number| addresses[*number] == address);
            let some: ArrayVec<Message<'_>, SEND_BATCH_MAX> = of_address().map(|number| messages[number]).collect();
            if !some.is_empty() {
                let sent = send(link, socket, &some, &sending[address].sending);
                of_address().zip(sent).for_each(|(number, outcome)| outcomes[number] = outcome);
            }
        }
        outcomes
    }
}

/// Sends `messages` through `socket`; if the kernel takes nothing, probes whether it would take anything.
fn send<S>(link: &mut impl Link<Socket = S>, socket: &S, messages: &[Message<'_>], sending: &Streak) -> Outcomes {
    let outcomes = link.send(socket, messages);
    if outcomes.iter().any(Result::is_ok) {
        sending.succeeded();
    } else if let Err(reason) = link.probe(socket) {
        sending.failed(clock::now(), reason as usize);
    }
    outcomes
}

/// The datagrams of the reply in `packet`.
fn messages_of<'p, T: Copy + Default>(packet: &'p Packet<'_, T>) -> impl Iterator<Item = Message<'p>> {
    let Source { peer, local, .. } = packet.envelope.source;
    packet.datagrams().map(move |bytes| Message { bytes, peer, local })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Unsent;
    use crate::handler::Reply;
    use crate::metrics::WorkerMetrics;
    use crate::net::Datagram;
    use crate::queue::ObjectPool;
    use crate::server::path::packet::PacketBody;
    use crate::server::path::transport::Transport;
    use std::io;

    /// A link to two sockets, of which the first takes no datagram of one byte, and the second takes nothing; for each call
    /// the socket and the lengths of its messages.
    #[derive(Default)]
    struct HalfOpen {
        calls: Vec<(usize, Vec<usize>)>,
    }

    impl Link for HalfOpen {
        type Socket = usize;

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

        fn send(&mut self, socket: &usize, messages: &[Message<'_>]) -> Outcomes {
            self.calls.push((*socket, messages.iter().map(|message| message.bytes.len()).collect()));
            let takes = |message: &Message<'_>| *socket == 0 && message.bytes.len() > 1;
            messages.iter().map(|message| if takes(message) { Ok(()) } else { Err(Unsent::Denied) }).collect()
        }

        fn probe(&mut self, _: &usize) -> Result<(), Unsent> {
            Ok(())
        }
    }

    fn pool() -> ObjectPool<PacketBody<()>> {
        let mut numbers = 0..;
        ObjectPool::new(SEND_BATCH_MAX, move || PacketBody::new(numbers.next().expect("a number"), 64))
    }

    /// A packet whose reply, of a request to this address, has datagrams of these lengths.
    fn packet<'s>(pool: &'s ObjectPool<PacketBody<()>>, address: u8, lengths: &[usize]) -> Packet<'s, ()> {
        let mut packet = pool.acquire().expect("there is one");
        let mut reply = Reply::new(&mut packet.reply);
        for length in lengths {
            reply.begin_datagram().expect("few datagrams");
            reply.put(&[0; 64][..*length]).expect("few bytes");
        }
        (packet.extents, packet.envelope.source.address) = (reply.extents(), address);
        packet
    }

    // Does each reply leave by the socket of its address, in order, with all its datagrams, and is one counted as answered if
    // the kernel has taken all of these, and each of these as unsent that it has not? Is the time of the others unanswered?
    #[test]
    fn replies_leave_by_address() {
        let (pool, metrics) = (pool(), WorkerMetrics::new(1));
        let mut recorder = metrics.recorder(0);
        let mut outbox = Outbox::new();
        let answers: [(u8, &[usize]); 5] = [(1, &[1]), (0, &[2, 3]), (1, &[4, 5]), (0, &[6, 1, 7]), (0, &[8])];
        for ((address, lengths), service_us) in answers.into_iter().zip([1, 10, 100, 1_000, 10_000]) {
            let sample = Sample { service: Nanos::from_micros(service_us), ..Sample::default() };
            outbox.answer(packet(&pool, address, lengths), sample, Nanos::ZERO);
        }
        [(0, [9, 1]), (1, [11, 12])].iter().for_each(|(address, two)| outbox.refusal(packet(&pool, *address, two)));
        recorder.received(7);
        assert_eq!(outbox.datagrams(), 13);
        let (mut link, transport, mut home) = (HalfOpen::default(), Transport::new(1, 2), 0);
        outbox.flush(&mut link, &[0, 1], &mut recorder, transport.of(0), |_| home += 1);
        assert_eq!(link.calls, [(0, vec![2, 3, 6, 1, 7, 8, 9, 1]), (1, vec![1, 4, 5, 11, 12])]);
        assert_eq!((home, outbox.datagrams(), outbox.is_empty()), (7, 0, true));
        let (_, ends) = metrics.ends();
        assert_eq!((ends[Fate::Answered as usize], ends[Fate::Unsent as usize]), (2, 3));
        assert_eq!(metrics.counts().counted.unsent[Unsent::Denied as usize], 7);
        assert_eq!(metrics.counts().unanswered, Nanos::from_micros(1_101), "the time of what was not sent");
    }

    // Is there room for as many datagrams as are sent at once, however many replies they are?
    #[test]
    fn room_is_counted_in_datagrams() {
        let pool = pool();
        let mut outbox = Outbox::new();
        for _ in 0..SEND_BATCH_MAX / 8 - 1 {
            outbox.answer(packet(&pool, 0, &[1; 8]), Sample::default(), Nanos::ZERO);
        }
        outbox.refusal(packet(&pool, 0, &[1; 5]));
        let has_room = |count: usize| outbox.has_room(&packet(&pool, 0, &[1; 8][..count]));
        assert_eq!([1, 2, 3, 4, 8].map(has_room), [true, true, true, false, false]);
    }
}
