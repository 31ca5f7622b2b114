//! Outgoing replies: kept until a batch is full or a reply would have to wait for other work.

use crate::fate::Fate;
use crate::handler::REFUSAL_MAX_BYTES;
use crate::metrics::{Counter, Recorder, Sample};
use crate::net::{Link, Message, SEND_BATCH_MAX};
use crate::server::path::packet::{Envelope, Packet};
use crate::server::transport::Streak;
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;
use std::net::{IpAddr, SocketAddr};

/// The replies of one worker.
pub(crate) struct Outbox<'s> {
    answers: ArrayVec<Answer<'s>, SEND_BATCH_MAX>,
    /// A queue of its own, because answers are moved for every request, and refusals are four times as long.
    refusals: ArrayVec<Refusal, SEND_BATCH_MAX>,
}

/// The reply to a request that was served, in its packet. Counted once the kernel has taken it.
struct Answer<'s> {
    packet: Packet<'s>,
    sample: Sample,
    finished_at: Nanos,
}

/// The reply to a request that was not served; its fate is counted already.
struct Refusal {
    bytes: [u8; REFUSAL_MAX_BYTES],
    length: usize,
    peer: SocketAddr,
    local: Option<IpAddr>,
}

impl<'s> Outbox<'s> {
    pub(crate) fn new() -> Outbox<'s> {
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

    /// Number of replies that wait to be sent.
    pub(crate) fn len(&self) -> usize {
        self.answers.len() + self.refusals.len()
    }

    /// Adds the reply in `packet`, finished at `finished_at`; `sample` lacks only the time to send it. The outbox must
    /// not be full.
    pub(crate) fn answer(&mut self, packet: Packet<'s>, sample: Sample, finished_at: Nanos) {
        self.answers.push(Answer { packet, sample, finished_at });
    }

    /// Adds the first `length` of `bytes` as the answer to a request that was not served. The outbox must not be full.
    pub(crate) fn refusal(&mut self, envelope: &Envelope, bytes: [u8; REFUSAL_MAX_BYTES], length: usize) {
        let Envelope { peer, local, .. } = *envelope;
        self.refusals.push(Refusal { bytes, length, peer, local });
    }

    /// Sends everything through `socket` of `link`, records the requests served, and gives the packets to `recycle`. If
    /// the kernel takes nothing, probes whether it would take anything, and tells `sending`. Returns the time after the
    /// send.
    pub(crate) fn flush<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        socket: &S,
        recorder: &mut Recorder<'_>,
        sending: &Streak,
        mut recycle: impl FnMut(Packet<'s>),
    ) -> Nanos {
        let outcomes = {
            // Filled in place: moving an `ArrayVec` copies its whole capacity.
            let mut messages = ArrayVec::<Message<'_>, SEND_BATCH_MAX>::new();
            messages.extend(self.answers.iter().map(Answer::message));
            messages.extend(self.refusals.iter().map(Refusal::message));
            link.send(socket, &messages)
        };
        let now = clock::now();
        if outcomes.iter().any(Result::is_ok) {
            sending.succeeded();
        } else if let Err(reason) = link.probe(socket) {
            sending.failed(now, reason as usize);
        }
        outcomes.iter().filter_map(|outcome| outcome.err()).for_each(|reason| recorder.count(Counter::Unsent(reason)));
        // A refusal keeps its fate, whether it was sent or not.
        self.refusals.clear();
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
        now
    }
}

impl Answer<'_> {
    fn message(&self) -> Message<'_> {
        let Envelope { peer, local, .. } = self.packet.envelope;
        Message { bytes: self.packet.reply(), peer, local }
    }
}

impl Refusal {
    fn message(&self) -> Message<'_> {
        Message { bytes: &self.bytes[..self.length], peer: self.peer, local: self.local }
    }
}
