//! Which datagrams become requests, and how all others are answered.

pub(crate) mod limits;
mod shed;

use super::execute::Engine;
use super::flows::Entered;
use super::receive::Ingress;
use crate::fate::{Failed, Fate, Malformed, Status};
use crate::handler::{Because, Handler, Rejected};
use crate::metrics::Counter;
use crate::net::{AddressRules, Datagram, Link};
use crate::runtime::continuation::guarded;
use crate::sched::overload::Stay;
use crate::server::path::packet::{Envelope, Packet, Serving, Source};
use std::future::Future;

impl<'s, H, M, F, L> Engine<'s, '_, '_, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// Checks a datagram received from `ingress`; returns the request if it is to be served. It is not if
    /// the datagram has waited for too long, and `sheds` says so.
    pub(crate) fn admit(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        ingress: Ingress,
        datagram: &Datagram,
        sheds: bool,
        rules: &AddressRules<'_>,
    ) -> Option<Packet<'s, H::Ticket>> {
        let peer = match rules.check(datagram) {
            Ok(peer) => peer,
            Err(reason) => return self.malformed(packet, reason),
        };
        if datagram.truncated {
            return self.malformed(packet, Malformed::Oversize);
        }
        packet.begin(Envelope {
            // A server has at most 4,096 sockets, on 16 addresses.
            source: Source {
                peer,
                local: datagram.local,
                socket: ingress.socket as u16,
                address: ingress.address as u8,
            },
            stay: Stay::new(self.now.minus(datagram.kernel_wait)),
            request_len: datagram.length,
            reply_limit: datagram.length,
            received_at: self.now,
            kernel_wait: datagram.kernel_wait,
            ..Envelope::default()
        });
        let Serving { handler, addresses, .. } = self.common.serving;
        let arrival = packet.envelope.arrival(&packet.request, addresses);
        let rejected = match guarded(|| handler.admit(&arrival)) {
            Ok(Ok(admitted)) => {
                let flow = admitted.flow;
                packet.admit(admitted);
                if self.now >= packet.envelope.stay.expires_at {
                    Fate::ShedExpired
                } else if sheds {
                    Fate::ShedWaited
                } else {
                    let Envelope { packet: number, class, ref mut stay, .. } = packet.envelope;
                    stay.start_by = self.shedding.start_by(stay, class, self.common.limits);
                    self.common.serving.unfinished.begin(number, class, stay.came_at);
                    return if let Some(key) = flow { self.enter_flow(packet, key) } else { Some(packet) };
                }
            }
            Ok(Err(Rejected::Malformed(reason))) => return self.malformed(packet, reason),
            Ok(Err(Rejected::Refused(admitted, reason))) => {
                packet.admit(admitted);
                self.recorder.count(Counter::Refused(reason));
                self.refuse(packet, Status::Refused);
                return None;
            }
            Ok(Err(Rejected::OverRate(admitted))) => {
                packet.admit(admitted);
                Fate::ShedRate
            }
            Ok(Err(Rejected::Ignored)) => Fate::Ignored,
            Ok(Err(Rejected::Because(because))) => return self.rejected(packet, because),
            Err(_) => {
                self.recorder.count(Counter::Failed(Failed::Panic));
                self.recycle(packet);
                return None;
            }
        };
        self.end(packet, rejected);
        None
    }

    /// Brings a request to the flow of `key`; returns the request if it is to be served now.
    // Apart from the way of requests that have no flow.
    #[cold]
    fn enter_flow(&mut self, mut packet: Packet<'s, H::Ticket>, key: u64) -> Option<Packet<'s, H::Ticket>> {
        // The thread that stops the server serves nothing, and its packets must come back to it.
        if self.worker == self.workers {
            return Some(packet);
        }
        packet.flow = Some(key);
        match self.common.flows.enter(key, packet) {
            Entered::Served(packet) => Some(packet),
            Entered::SetAside => None,
            Entered::Full(mut packet) => {
                packet.flow = None;
                self.end(packet, Fate::ShedQueueFull);
                None
            }
        }
    }

    /// Ends a datagram for a reason of the handler's own.
    fn rejected(
        &mut self,
        mut packet: Packet<'s, H::Ticket>,
        because: Because<H::Ticket>,
    ) -> Option<Packet<'s, H::Ticket>> {
        let Because { fate, admitted, reason } = because;
        if let Some(admitted) = admitted {
            packet.admit(admitted);
        }
        if matches!(fate, Fate::ShedRate | Fate::Ignored) {
            self.recorder.unanswered(packet.envelope.class, packet.envelope.stay.service);
        }
        if usize::from(reason) < H::REASON_NAMES.len() {
            self.recorder.rejected(fate, reason);
        } else {
            self.recorder.ended(fate);
        }
        match fate.status() {
            Some(status) => self.refuse(packet, status),
            None => self.recycle(packet),
        }
        None
    }

    fn malformed(&mut self, packet: Packet<'s, H::Ticket>, reason: Malformed) -> Option<Packet<'s, H::Ticket>> {
        self.recorder.count(Counter::Malformed(reason));
        self.recycle(packet);
        None
    }
}
