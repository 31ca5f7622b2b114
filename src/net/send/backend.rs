//! Backends for sending: system calls that hand batches to the kernel.

use super::Message;
use super::gso::{Call, GsoPlan};
use crate::net::{SEND_BATCH_MAX, Socket};
use crate::time::Nanos;
use arrayvec::ArrayVec;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use std::io::IoSlice;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

/// A backend for sending, or a scripted one in tests.
pub(super) trait Backend {
    /// Sends the batches of `call`, which begin at number `at`, and returns how many the kernel took, at least one.
    ///
    /// # Errors
    /// The reason why it did not take the first.
    fn send(
        &mut self,
        socket: &Socket,
        messages: &[Message<'_>],
        plan: &GsoPlan,
        at: usize,
        call: Call,
    ) -> Result<usize, Errno>;

    /// Makes the call without sending anything.
    ///
    /// # Errors
    /// Why the system does not permit it.
    fn probe(&mut self, socket: &Socket) -> Result<(), Errno>;

    /// Waits until the socket's send buffer has drained to a half, for `patience` at most. Returns true if it has.
    fn wait(&mut self, socket: &Socket, patience: Nanos) -> bool {
        let timeout = PollTimeout::try_from(std::time::Duration::from(patience)).unwrap_or(PollTimeout::ZERO);
        let mut polled = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        // An error here is reported by the next attempt to send.
        let _ = poll(&mut polled, timeout);
        polled[0].revents().is_some_and(|events| events.contains(PollFlags::POLLOUT))
    }
}

/// Sends many batches in one call.
///
/// The wrapper around `sendmmsg` encodes the same control data into every header, into space that must be exactly full:
/// so there are headers for each kind of it, and one call sends batches from one address, cut at one length.
pub(super) struct Batched {
    /// By the source address (none, IPv4, IPv6), each without and with a length to cut at.
    headers: [[Headers; 2]; 3],
    peers: Vec<Option<SockaddrStorage>>,
}

type Headers = MultiHeaders<SockaddrStorage>;

impl Batched {
    pub(super) fn new() -> Batched {
        let headers = |control| Headers::preallocate(SEND_BATCH_MAX, control);
        let headers = [
            [headers(None), headers(Some(cmsg_space!(u16)))],
            [headers(Some(cmsg_space!(in_pktinfo))), headers(Some(cmsg_space!(in_pktinfo, u16)))],
            [headers(Some(cmsg_space!(in6_pktinfo))), headers(Some(cmsg_space!(in6_pktinfo, u16)))],
        ];
        Batched { headers, peers: Vec::with_capacity(SEND_BATCH_MAX) }
    }
}

impl Backend for Batched {
    fn send(
        &mut self,
        socket: &Socket,
        messages: &[Message<'_>],
        plan: &GsoPlan,
        at: usize,
        call: Call,
    ) -> Result<usize, Errno> {
        let batches = &plan.batches()[at..at + call.count];
        // Filled in place: moving an `ArrayVec` copies its whole capacity.
        let mut slices = ArrayVec::<IoSlice<'_>, SEND_BATCH_MAX>::new();
        self.peers.clear();
        for batch in batches {
            let numbers = plan.messages(batch);
            slices.extend(numbers.iter().map(|number| IoSlice::new(messages[*number].bytes)));
            self.peers.extend(numbers.first().map(|first| Some(SockaddrStorage::from(messages[*first].peer))));
        }
        let mut cuts = ArrayVec::<&[IoSlice<'_>], SEND_BATCH_MAX>::new();
        let mut rest = slices.as_slice();
        for batch in batches {
            let (cut, others) = rest.split_at(batch.places().len());
            cuts.push(cut);
            rest = others;
        }
        let (from_v4, from_v6, segment);
        let mut control = ArrayVec::<ControlMessage<'_>, 2>::new();
        match call.local {
            None => {}
            Some(IpAddr::V4(local)) => {
                from_v4 = packet_info_v4(local);
                control.push(ControlMessage::Ipv4PacketInfo(&from_v4));
            }
            Some(IpAddr::V6(local)) => {
                from_v6 = packet_info_v6(local);
                control.push(ControlMessage::Ipv6PacketInfo(&from_v6));
            }
        }
        if let Some(length) = call.segment {
            segment = u16::try_from(length).map_err(|_| Errno::EMSGSIZE)?;
            control.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let from = call.local.map_or(0, |local| if local.is_ipv4() { 1 } else { 2 });
        let headers = &mut self.headers[from][usize::from(call.segment.is_some())];
        let (socket, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        Ok(sendmmsg(socket, headers, cuts.iter(), &self.peers, &control, flags)?.count())
    }

    fn probe(&mut self, socket: &Socket) -> Result<(), Errno> {
        let nothing: [&[IoSlice<'_>]; 0] = [];
        sendmmsg(socket.as_raw_fd(), &mut self.headers[0][0], nothing.iter(), [], [], MsgFlags::MSG_DONTWAIT).map(drop)
    }
}

fn packet_info_v4(local: Ipv4Addr) -> in_pktinfo {
    in_pktinfo {
        ipi_ifindex: 0,
        ipi_spec_dst: in_addr { s_addr: u32::from(local).to_be() },
        ipi_addr: in_addr { s_addr: 0 },
    }
}

fn packet_info_v6(local: Ipv6Addr) -> in6_pktinfo {
    in6_pktinfo { ipi6_addr: in6_addr { s6_addr: local.octets() }, ipi6_ifindex: 0 }
}
