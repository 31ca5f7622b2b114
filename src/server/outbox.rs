//! Replies on their way out: kept until a batch is full or somebody would wait for them.

use crate::metrics::{Fate, Recorder, Sample};
use crate::net::{BATCH, Message, Sender, Socket};
use crate::packet::{Envelope, Packet};
use crate::time::{Nanos, clock};
use crate::wire::HEADER_BYTES;
use arrayvec::ArrayVec;
use std::net::{IpAddr, SocketAddr};

/// Room for the answer to a request that was not served: a bench header, and as much again for other protocols.
pub(super) const REFUSAL_MAX_BYTES: usize = 2 * HEADER_BYTES;

/// The replies of one worker.
pub(super) struct Outbox<'s> {
    entries: ArrayVec<Entry<'s>, BATCH>,
    sender: Sender,
}

struct Entry<'s> {
    body: Body<'s>,
    peer: SocketAddr,
    local: Option<IpAddr>,
}

enum Body<'s> {
    /// A request served: its packet holds the reply. Counted once the kernel has taken the reply.
    Answer { packet: Packet<'s>, sample: Sample, finished_at: Nanos },
    /// A request not served, counted already.
    Refusal { bytes: [u8; REFUSAL_MAX_BYTES], length: usize },
}

impl<'s> Outbox<'s> {
    pub(super) fn new() -> Outbox<'s> {
        Outbox { entries: ArrayVec::new(), sender: Sender::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.entries.is_full()
    }

    /// Adds the reply in `packet`, finished at `finished_at`; `sample` lacks only the time to send it. The outbox must
    /// not be full.
    pub(super) fn answer(&mut self, packet: Packet<'s>, sample: Sample, finished_at: Nanos) {
        let Envelope { peer, local, .. } = packet.envelope;
        self.entries.push(Entry { body: Body::Answer { packet, sample, finished_at }, peer, local });
    }

    /// Adds the first `length` of `bytes` as the answer to a request that was not served. The outbox must not be full.
    pub(super) fn refusal(&mut self, envelope: &Envelope, bytes: [u8; REFUSAL_MAX_BYTES], length: usize) {
        let Envelope { peer, local, .. } = *envelope;
        self.entries.push(Entry { body: Body::Refusal { bytes, length }, peer, local });
    }

    /// Sends everything through `socket`, records what was served, and gives the packets to `recycle`. Returns when the
    /// kernel had it.
    pub(super) fn flush(
        &mut self,
        socket: &Socket,
        recorder: &mut Recorder<'_>,
        mut recycle: impl FnMut(Packet<'s>),
    ) -> Nanos {
        let taken = {
            let messages: ArrayVec<Message<'_>, BATCH> = self.entries.iter().map(Entry::message).collect();
            self.sender.send(socket, &messages)
        };
        let now = clock::now();
        for (entry, taken) in self.entries.drain(..).zip(taken) {
            let Body::Answer { packet, sample, finished_at } = entry.body else { continue };
            if taken {
                recorder.answered(&Sample { send: now.minus(finished_at), ..sample });
            } else {
                recorder.ended(Fate::Unsent);
            }
            recycle(packet);
        }
        now
    }
}

impl Entry<'_> {
    fn message(&self) -> Message<'_> {
        let bytes = match &self.body {
            Body::Answer { packet, .. } => packet.reply(),
            Body::Refusal { bytes, length } => &bytes[..*length],
        };
        Message { bytes, peer: self.peer, local: self.local }
    }
}
