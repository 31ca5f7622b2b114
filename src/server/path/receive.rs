//! Receiving: from a worker's sockets until each datagram is a job in a queue or has ended.

use super::execute::Engine;
use super::slot::Job;
use crate::fate::{Fate, ReceiveError};
use crate::handler::Handler;
use crate::metrics::Counter;
use crate::net::{BATCH, Link, SEND_BATCH_MAX, receive_error};
use crate::sched::WorkerId;
use crate::sched::overload::Limits as _;
use crate::sched::turn::{Arrived, Received};
use crate::server::path::packet::Packet;
use crate::time::clock;
use arrayvec::ArrayVec;
use std::future::Future;

/// The socket that a batch came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ingress {
    /// Its number among all sockets.
    pub(crate) socket: usize,
    /// The number of its address.
    pub(crate) address: usize,
}

impl<'s, 'e, 'c, H, M, F, L> Engine<'s, 'e, 'c, H, M, F, L>
where
    H: Handler,
    M: Fn(Packet<'s, H::Ticket>) -> F + Sync,
    F: Future<Output = Packet<'s, H::Ticket>> + Send,
    L: Link,
{
    /// See [`turn::Engine::receive`](crate::sched::turn::Engine::receive).
    pub(crate) fn receive_from(
        &mut self,
        owner: WorkerId,
        batch: &mut Vec<Arrived<Job<'s, 'e, F, H::Ticket>>>,
    ) -> Received {
        // The rest of a GRO batch belongs to the same receive.
        let begins = self.link.left() == 0;
        // After a full batch more datagrams wait. Where requests are brief, replies are batched over a few receives: the
        // more of them go to one peer, the fewer pass through the kernel one by one.
        if begins && (!self.gathering.is_on() || self.full_batches.is_multiple_of(SEND_BATCH_MAX / BATCH)) {
            self.send();
        }
        self.stock_up();
        if self.spare.is_empty() {
            // With every packet in use, requests wait in the socket, where the kernel bounds them.
            return Received { datagrams: self.shed_rest(), more: false };
        }
        let (asked_at, room) = (self.now, self.spare.len().min(BATCH));
        let (count, ingress) = self.receive_batch(owner);
        let socket = ingress.socket;
        self.full_batches = if count == BATCH { self.full_batches + 1 } else { 0 };
        self.now = clock::now();
        self.recorder.received(count as u64);
        let rules = self.common.filter.rules();
        let packets: ArrayVec<Packet<'s, H::Ticket>, BATCH> = self.spare.drain(..count).collect();
        // Of a batch the first has waited longest. Where that one is young, and its age can be true, all of them are.
        let longest = self.longest_wait(socket);
        let oldest = self.link.datagrams().first().copied().unwrap_or_default();
        let (is_odd, is_old) =
            (oldest.ahead || oldest.kernel_wait > longest, oldest.kernel_wait >= self.common.limits.target(false));
        for (number, packet) in packets.into_iter().enumerate() {
            let mut datagram = self.link.datagrams()[number];
            if is_odd {
                datagram.kernel_wait = self.clamped(&datagram, longest);
            }
            let sheds = is_old && self.shedding.is_old(socket, self.now, datagram.kernel_wait, self.common.limits);
            let Some(packet) = self.admit(packet, ingress, &datagram, sheds, &rules) else { continue };
            let class = self.common.classified.then_some(packet.envelope.class);
            batch.push(Arrived { job: Job::Fresh(packet), class });
        }
        if begins && count > 0 && count < room {
            // Whatever comes from this socket from now on has come since.
            self.emptied_at[socket] = asked_at;
        }
        self.pay_for_receiving(count);
        // The rest of a GRO batch is no longer in the socket, where other workers would find it.
        Received { datagrams: count, more: self.link.left() > 0 }
    }

    /// Acquires packets to receive into, as far as there are any.
    pub(crate) fn stock_up(&mut self) {
        while !self.spare.is_full() {
            let Some(packet) = self.common.packets.acquire() else { break };
            self.spare.push(packet);
        }
    }

    /// Receives into the first of the spare packets, from the first of the sockets of `owner` in which something waits.
    /// The sockets take turns, so that a flood at one address starves no other.
    fn receive_batch(&mut self, owner: WorkerId) -> (usize, Ingress) {
        let sockets = self.common.sockets_of(owner);
        let mut address = usize::from(self.next_address[owner]);
        let mut left = sockets.len();
        loop {
            let count = self.receive_from_socket(&sockets[address], address);
            let ingress = Ingress { socket: owner * sockets.len() + address, address };
            left -= 1;
            // The rest of a GRO batch comes from the socket that the batch came from.
            if self.link.left() == 0 {
                address = if address + 1 < sockets.len() { address + 1 } else { 0 };
            }
            if count > 0 || left == 0 {
                self.next_address[owner] = address as u8;
                return (count, ingress);
            }
        }
    }

    /// Receives into the first of the spare packets from `socket`, which is this worker's or another's at the address of
    /// that number.
    fn receive_from_socket(&mut self, socket: &L::Socket, address: usize) -> usize {
        let receiving = &self.common.transport.of(self.worker)[address].receiving;
        // An error that an earlier send left on the socket is reported once, in place of datagrams; the second call
        // receives them. An error that stays is no datagram either.
        let mut reason = ReceiveError::Other;
        for _ in 0..2 {
            let buffers = self.spare.iter_mut().map(|packet| &mut packet.request[..]);
            match self.link.receive(socket, buffers) {
                Ok(count) => {
                    receiving.succeeded();
                    return count;
                }
                Err(error) => {
                    reason = receive_error(&error);
                    self.recorder.count(Counter::ReceiveErrors(reason));
                }
            }
        }
        receiving.failed(clock::now(), reason as usize);
        0
    }

    /// Ends the rest of a GRO batch that has no packets. No client is answered: the requests are still unread.
    fn shed_rest(&mut self) -> usize {
        let rest = self.link.left();
        self.recorder.received(rest as u64);
        (0..rest).for_each(|_| self.recorder.ended(Fate::ShedQueueFull));
        self.link.discard();
        rest
    }
}
