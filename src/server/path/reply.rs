//! Replies on their way out: kept until a batch is full or somebody would wait for them.

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
    /// Apart, because answers are moved for every request, and refusals are four times as long.
    refusals: ArrayVec<Refusal, SEND_BATCH_MAX>,
}

/// A request served: its packet holds the reply. Counted once the kernel has taken the reply.
struct Answer<'s> {
    packet: Packet<'s>,
    sample: Sample,
    finished_at: Nanos,
}

/// A request not served, counted already.
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

    pub(crate) fn is_full(&self) -> bool {
        self.answers.len() + self.refusals.len() == SEND_BATCH_MAX
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

    /// Sends everything through `socket` of `link`, records what was served, and gives the packets to `recycle`. Where nothing is taken,
    /// finds out whether anything would be, and tells `sending`. Returns when the kernel had it.
    pub(crate) fn flush<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        socket: &S,
        recorder: &mut Recorder<'_>,
        sending: &Streak,
        mut recycle: impl FnMut(Packet<'s>),
    ) -> Nanos {
        let outcomes = {
            // Filled where it stands: what is collected is moved, all of its room.
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
        // A refusal keeps the fate that it tells of, whether it is heard or not.
        self.refusals.clear();
        for (answer, outcome) in self.answers.drain(..).zip(outcomes) {
            match outcome {
                Ok(()) => recorder.answered(&Sample { send: now.minus(answer.finished_at), ..answer.sample }),
                Err(_) => recorder.ended(Fate::Unsent),
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
