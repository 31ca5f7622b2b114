//! Outgoing replies: kept until a batch is full or a reply would have to wait for other work.

use crate::fate::Fate;
use crate::metrics::{Counter, Recorder, Sample};
use crate::net::{Link, Message, SEND_BATCH_MAX};
use crate::server::path::packet::{Envelope, Packet};
use crate::server::transport::Streak;
use crate::time::{Nanos, clock};
use arrayvec::ArrayVec;

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

    /// Sends everything through `socket` of `link`, records the requests served, and gives the packets to `recycle`. If
    /// the kernel takes nothing, probes whether it would take anything, and tells `sending`. Returns the time after the
    /// send.
    pub(crate) fn flush<S>(
        &mut self,
        link: &mut impl Link<Socket = S>,
        socket: &S,
        recorder: &mut Recorder<'_>,
        sending: &Streak,
        mut recycle: impl FnMut(Packet<'s, T>),
    ) -> Nanos {
        let outcomes = {
            // Filled in place: moving an `ArrayVec` copies its whole capacity.
            let mut messages = ArrayVec::<Message<'_>, SEND_BATCH_MAX>::new();
            messages.extend(self.answers.iter().map(|answer| message(&answer.packet)));
            messages.extend(self.refusals.iter().map(message));
            link.send(socket, &messages)
        };
        let now = clock::now();
        if outcomes.iter().any(Result::is_ok) {
            sending.succeeded();
        } else if let Err(reason) = link.probe(socket) {
            sending.failed(now, reason as usize);
        }
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
}

fn message<'p, T: Copy + Default>(packet: &'p Packet<'_, T>) -> Message<'p> {
    let Envelope { peer, local, .. } = packet.envelope;
    Message { bytes: packet.reply(), peer, local }
}
