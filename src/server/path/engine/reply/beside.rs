//! Sends what services send beside their replies.

use crate::fate::ShardSend;
use crate::handler::{Service, outgoing};
use crate::metrics::CounterName;
use crate::net::{Link, Message, SEND_BATCH_MAX};
use crate::server::path::engine::Engine;
use crate::server::path::packet::{Make, Packet};
use arrayvec::ArrayVec;

impl<'s, H: Service, M: Make<Packet<'s, H::Ticket>>, L: Link> Engine<'s, '_, '_, H, M, L> {
    /// Sends what this thread has, and counts it.
    #[cold]
    pub(super) fn send_beside(&mut self) {
        outgoing::drain(|bag| {
            for (reason, count) in bag.refused() {
                (0..count).for_each(|_| self.recorder.count(CounterName::ShardDatagrams(reason)));
            }
            let sockets = self.common.sockets_of(self.worker % self.workers);
            for (address, socket) in sockets.iter().enumerate() {
                let mut rest =
                    bag.datagrams(address).map(|(bytes, peer, local, ecn)| Message { bytes, peer, local, ecn });
                loop {
                    let messages: ArrayVec<_, SEND_BATCH_MAX> = rest.by_ref().take(SEND_BATCH_MAX).collect();
                    if messages.is_empty() {
                        break;
                    }
                    for outcome in self.link.send(socket, &messages, self.now) {
                        let sent = outcome.map_or_else(
                            |reason| {
                                self.recorder.count(CounterName::Unsent(reason));
                                ShardSend::Unsent
                            },
                            |()| ShardSend::Sent,
                        );
                        self.recorder.count(CounterName::ShardDatagrams(sent));
                    }
                }
            }
        });
    }
}
