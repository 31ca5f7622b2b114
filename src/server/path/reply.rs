//! Outgoing replies: kept until a batch is full or a reply would have to wait for other work.

use crate::fate::Fate;
use crate::metrics::{Counter, Recorder, Sample};
use crate::net::{Link, Message, Outcomes, SEND_BATCH_MAX};
use crate::server::path::packet::{Envelope, Packet};
use crate::server::transport::{Directions, Streak};
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use crossbeam_utils::CachePadded;

/// The replies of one worker.
pub(crate) struct Outbox<'s, T> {
    answers: ArrayVec<Answer<'s, T>, SEND_BATCH_MAX>,
    /// Packets with the replies to requests that were not served; their fates are counted already.
    refusals: ArrayVec<Packet<'s, T>, SEND_BATCH_MAX>,
}

/// The reply to a request that was served, in its packet. Counted once the kernel has taken it.
struct Answer<'s, T> {
    packet: Packet<'s, T>,
    sample: Sample,
    finished_at: Nanos,
}

impl<'s, T: Copy + Default> Outbox<'s, T> {
    pub(crate) fn new() -> Outbox<'s, T> {
        Outbox { answers: ArrayVec::new(), refusals: ArrayVec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.refusals.is_empty()
    }

    /// When the answer was finished that has waited longest; `None` if no answer waits.
    pub(crate) fn oldest(&self) -> Option<Nanos> {
        self.answers.first().map(|answer| answer.finished_at)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == SEND_BATCH_MAX
    }

    /// Number of replies that wait to be sent, to requests that were not served.
    #[cfg(test)]
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.len()
    }

    /// Number of replies that wait to be sent.
    pub(crate) fn len(&self) -> usize {
        self.answers.len() + self.refusals.len()
    }

    /// Adds the reply in `packet`, finished at `finished_at`; `sample` lacks only the time to send it. The outbox must
    /// not be full.
    pub(crate) fn answer(&mut self, packet: Packet<'s, T>, sample: Sample, finished_at: Nanos) {
        self.answers.push(Answer { packet, sample, finished_at });
    }

    /// Adds the reply in `packet` to a request that was not served. The outbox must not be full.
    pub(crate) fn refusal(&mut self, packet: Packet<'s, T>) {
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
            messages.extend(self.answers.iter().map(|answer| message(&answer.packet)));
            messages.extend(self.refusals.iter().map(message));
            match sockets {
                [socket] => send(link, socket, &messages, &sending[0].sending),
                _ => self.send_by_address(link, sockets, &messages, sending),
            }
        };
        let now = clock::now();
        outcomes.iter().filter_map(|outcome| outcome.err()).for_each(|reason| recorder.count(Counter::Unsent(reason)));
        for (answer, outcome) in self.answers.drain(..).zip(outcomes) {
            match outcome {
                Ok(()) => recorder.answered(&Sample { send: now.minus(answer.finished_at), ..answer.sample }),
                Err(_) => {
                    recorder.unanswered(answer.sample.class, answer.sample.service);
                    recorder.ended(Fate::Unsent);
                }
            }
            recycle(answer.packet);
        }
        // A refusal keeps its fate, whether it was sent or not.
        self.refusals.drain(..).for_each(recycle);
        now
    }

    /// Sends `messages`, those of all replies in their order, each through the socket of the address that its request
    /// came to.
    fn send_by_address<S>(
        &self,
        link: &mut impl Link<Socket = S>,
        sockets: &[S],
        messages: &[Message<'_>],
        sending: &[CachePadded<Directions>],
    ) -> Outcomes {
        let answers = self.answers.iter().map(|answer| answer.packet.envelope.address);
        let addresses = answers.chain(self.refusals.iter().map(|packet| packet.envelope.address));
        let addresses: ArrayVec<usize, SEND_BATCH_MAX> = addresses.map(usize::from).collect();
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

fn message<'p, T: Copy + Default>(packet: &'p Packet<'_, T>) -> Message<'p> {
    let Envelope { peer, local, .. } = packet.envelope;
    Message { bytes: packet.reply(), peer, local }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Unsent;
    use crate::net::Datagram;
    use crate::queue::ObjectPool;
    use crate::server::path::packet::PacketBody;
    use crate::server::transport::Transport;
    use std::io;

    /// A link to two sockets, of which the second takes nothing; for each call the socket and the lengths of its messages.
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
            messages.iter().map(|_| if *socket == 0 { Ok(()) } else { Err(Unsent::Denied) }).collect()
        }

        fn probe(&mut self, _: &usize) -> Result<(), Unsent> {
            Ok(())
        }
    }

    // Does each reply leave by the socket of its address, in order, and is the outcome of each its own?
    #[test]
    fn replies_leave_by_address() {
        let mut numbers = 0..;
        let pool = ObjectPool::new(5, || PacketBody::<()>::new(numbers.next().expect("a number"), 64));
        let packet = |address, reply_len| {
            let mut packet = pool.acquire().expect("there is one");
            (packet.envelope.address, packet.reply_len) = (address, reply_len);
            packet
        };
        let mut outbox = Outbox::new();
        for (address, length) in [(1, 1), (0, 2), (1, 3)] {
            outbox.answers.push(Answer {
                packet: packet(address, length),
                sample: Sample::default(),
                finished_at: Nanos::ZERO,
            });
        }
        [(0, 4), (1, 5)].into_iter().for_each(|(address, length)| outbox.refusal(packet(address, length)));
        let (mut link, transport) = (HalfOpen::default(), Transport::new(1, 2));
        let answers = outbox.answers.iter().map(|answer| message(&answer.packet));
        let messages: Vec<Message<'_>> = answers.chain(outbox.refusals.iter().map(message)).collect();
        let outcomes = outbox.send_by_address(&mut link, &[0, 1], &messages, transport.of(0));
        assert_eq!(link.calls, [(0, vec![2, 4]), (1, vec![1, 3, 5])]);
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true, false, true, false]);
    }
}
