//! Sockets in memory, with the kernel's bounds and, now and then, its errors.

use super::handler::PROVEN;
use super::scenario::Scenario;
use crate::fate::Unsent;
use crate::net::{BATCH, Datagram, Link, Message, Outcomes};
use crate::sched::WorkerId;
use crate::time::{Nanos, ThreadUse, clock};
use arrayvec::ArrayVec;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

/// The source port of a validated sender.
const PROVEN_PORT: u16 = 9_998;
/// Flows with at least this number come from the source that the gate limits. Drawn requests use
/// lower numbers.
pub(super) const LIMITED_FLOWS: u8 = 128;
/// The source that the gate limits.
pub(super) const LIMITED: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// The network of an explored server.
pub(super) struct Network<'c> {
    scenario: &'c Scenario,
    sockets: Vec<VecDeque<(Nanos, Vec<u8>)>>,
    messages: u32,
    receives: u32,
    /// Bytes received from, and sent to, the source that may be forged.
    unproven: [usize; 2],
    /// Datagrams whose stamp was ahead of the clock, and too far behind it.
    pub(super) odd: [u64; 2],
    /// Datagrams dropped at full sockets or by the shut gate.
    pub(super) dropped: u64,
    pub(super) gate_shut: bool,
}

/// One worker's access to the network.
#[derive(Clone)]
pub(super) struct MemoryLink<'c> {
    network: Rc<RefCell<Network<'c>>>,
    datagrams: ArrayVec<Datagram, BATCH>,
    /// The rest of a train.
    rest: VecDeque<(Nanos, Vec<u8>)>,
}

impl Network<'_> {
    pub(super) fn new(scenario: &Scenario) -> Rc<RefCell<Network<'_>>> {
        let sockets = vec![VecDeque::new(); scenario.workers];
        let (unproven, odd) = ([0; 2], [0; 2]);
        let network =
            Network { scenario, sockets, messages: 0, receives: 0, unproven, odd, dropped: 0, gate_shut: false };
        Rc::new(RefCell::new(network))
    }

    /// Delivers a datagram; false if it was dropped.
    pub(super) fn arrive(&mut self, owner: WorkerId, datagram: Vec<u8>) -> bool {
        let socket = &mut self.sockets[owner];
        let fits = !self.gate_shut && socket.len() < self.scenario.socket_capacity;
        if fits {
            socket.push_back((clock::now(), datagram));
        } else {
            self.dropped += 1;
        }
        fits
    }

    /// Number of datagrams in the socket of `owner`.
    pub(super) fn waiting(&self, owner: WorkerId) -> usize {
        self.sockets[owner].len()
    }
}

impl<'c> MemoryLink<'c> {
    pub(super) fn new(network: &Rc<RefCell<Network<'c>>>) -> MemoryLink<'c> {
        MemoryLink { network: Rc::clone(network), datagrams: ArrayVec::new(), rest: VecDeque::new() }
    }
}

impl Link for MemoryLink<'_> {
    type Socket = WorkerId;

    fn now() -> Nanos {
        clock::now()
    }

    fn used(_: Nanos) -> ThreadUse {
        clock::use_of_thread()
    }

    fn receive<'b>(&mut self, owner: &WorkerId, buffers: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        self.datagrams.clear();
        let network = &mut *self.network.borrow_mut();
        network.receives += 1;
        let Scenario { odd_every, trains, stamps, .. } = *network.scenario;
        let is_odd = odd_every > 0 && network.receives.is_multiple_of(odd_every);
        let ahead = is_odd && network.receives.is_multiple_of(2);
        let mut socket = &mut network.sockets[*owner];
        if trains {
            if self.rest.is_empty() {
                self.rest.append(socket);
            }
            socket = &mut self.rest;
        }
        for buffer in buffers.take(BATCH) {
            let Some((came_at, bytes)) = socket.pop_front() else { break };
            buffer[..bytes.len()].copy_from_slice(&bytes);
            let is_proven = bytes.first() == Some(&PROVEN);
            network.unproven[0] += if is_proven { 0 } else { bytes.len() };
            let is_limited = bytes.get(3).is_some_and(|flow| *flow >= LIMITED_FLOWS);
            let address = if is_limited { LIMITED } else { Ipv4Addr::LOCALHOST };
            let peer = Some(SocketAddr::from((address, if is_proven { PROVEN_PORT } else { 9_999 })));
            self.datagrams.push(Datagram {
                length: bytes.len(),
                peer,
                // As if the clock had been set forward by an hour.
                kernel_wait: match is_odd && !ahead {
                    true => Nanos::from_secs(3_600),
                    false if stamps => clock::now().minus(came_at),
                    false => Nanos::ZERO,
                },
                ahead,
                ..Datagram::default()
            });
        }
        if is_odd {
            network.odd[usize::from(!ahead)] += self.datagrams.len() as u64;
        }
        Ok(self.datagrams.len())
    }

    fn holds(&self, owner: &WorkerId) -> bool {
        self.network.borrow().waiting(*owner) > 0
    }

    fn datagrams(&self) -> &[Datagram] {
        &self.datagrams
    }

    fn left(&self) -> usize {
        self.rest.len()
    }

    fn discard(&mut self) {
        self.rest.clear();
    }

    fn send(&mut self, _: &WorkerId, messages: &[Message<'_>], _: Nanos) -> Outcomes {
        let network = &mut *self.network.borrow_mut();
        let unproven = messages.iter().filter(|message| message.peer.port() != PROVEN_PORT);
        network.unproven[1] += unproven.map(|message| message.bytes.len()).sum::<usize>();
        let [came, sent] = network.unproven;
        assert!(sent <= came, "{sent} bytes were sent to a source that may be forged, for {came}");
        let every = network.scenario.unsent_every;
        let mut refused = || {
            network.messages += 1;
            every > 0 && network.messages.is_multiple_of(every)
        };
        messages.iter().map(|_| if refused() { Err(Unsent::BufferFull) } else { Ok(()) }).collect()
    }
}
