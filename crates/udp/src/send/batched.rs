//! The kernel's sending calls.

use super::{Backend, Call, GsoPlan, Message};
use crate::io::SEND_BATCH_MAX;
use crate::socket::Socket;
use arrayvec::ArrayVec;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use std::io::IoSlice;
use std::net::IpAddr;
use std::os::fd::AsRawFd;

/// Sends many batches in one call.
///
/// The wrapper around `sendmmsg` puts the same control data into every header, and the control
/// space must be exactly full. So there are separate headers for each kind of control data. And one
/// call can only send batches with the same source address and the same segment length.
pub(crate) struct Batched {
    /// Headers by source address (none, IPv4, IPv6), each without and with a segment length.
    plain: [[Headers; 2]; 3],
    /// The same for calls with ECN bits.
    marked: Option<[[Headers; 2]; 3]>,
    peers: Vec<Option<SockaddrStorage>>,
}

type Headers = MultiHeaders<SockaddrStorage>;

impl Batched {
    pub(super) fn new(ecn: bool) -> Batched {
        let headers = |control| Headers::preallocate(SEND_BATCH_MAX, control);
        let plain = [
            [headers(None), headers(Some(cmsg_space!(u16)))],
            [headers(Some(cmsg_space!(in_pktinfo))), headers(Some(cmsg_space!(in_pktinfo, u16)))],
            [headers(Some(cmsg_space!(in6_pktinfo))), headers(Some(cmsg_space!(in6_pktinfo, u16)))],
        ];
        let marked = ecn.then(|| {
            [
                [headers(Some(cmsg_space!(u8, i32))), headers(Some(cmsg_space!(u16, u8, i32)))],
                [headers(Some(cmsg_space!(in_pktinfo, u8, i32))), headers(Some(cmsg_space!(in_pktinfo, u16, u8, i32)))],
                [
                    headers(Some(cmsg_space!(in6_pktinfo, u8, i32))),
                    headers(Some(cmsg_space!(in6_pktinfo, u16, u8, i32))),
                ],
            ]
        });
        Batched { plain, marked, peers: Vec::with_capacity(SEND_BATCH_MAX) }
    }
}

impl Backend for Batched {
    fn send(&mut self, socket: &Socket, messages: &[Message<'_>], plan: &GsoPlan, call: Call) -> Result<usize, Errno> {
        let batches = &plan.batches[call.first..][..call.count];
        // Filled in place, because to move an `ArrayVec` copies its whole capacity.
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
            let (cut, others) = rest.split_at(batch.places.len());
            cuts.push(cut);
            rest = others;
        }
        let (from_v4, from_v6, segment);
        let class = i32::from(call.ecn);
        let mut control = ArrayVec::<ControlMessage<'_>, 4>::new();
        match call.local {
            None => {}
            Some(IpAddr::V4(local)) => {
                let (ipi_spec_dst, ipi_addr) = (in_addr { s_addr: u32::from(local).to_be() }, in_addr { s_addr: 0 });
                from_v4 = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst, ipi_addr };
                control.push(ControlMessage::Ipv4PacketInfo(&from_v4));
            }
            Some(IpAddr::V6(local)) => {
                from_v6 = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: local.octets() }, ipi6_ifindex: 0 };
                control.push(ControlMessage::Ipv6PacketInfo(&from_v6));
            }
        }
        if let Some(length) = call.segment {
            segment = u16::try_from(length).map_err(|_| Errno::EMSGSIZE)?;
            control.push(ControlMessage::UdpGsoSegments(&segment));
        }
        let from = call.local.map_or(0, |local| if local.is_ipv4() { 1 } else { 2 });
        let marked = self.marked.as_mut().filter(|_| call.ecn > 0);
        if marked.is_some() {
            // The kernel reads the one of the receiver's family. A call may have receivers of both.
            control.extend([ControlMessage::Ipv4Tos(&call.ecn), ControlMessage::Ipv6TClass(&class)]);
        }
        let headers = &mut marked.unwrap_or(&mut self.plain)[from][usize::from(call.segment.is_some())];
        let (socket, flags) = (socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        Ok(sendmmsg(socket, headers, cuts.iter(), &self.peers, &control, flags)?.count())
    }

    fn probe(&mut self, socket: &Socket) -> Result<(), Errno> {
        let nothing: [&[IoSlice<'_>]; 0] = [];
        sendmmsg(socket.as_raw_fd(), &mut self.plain[0][0], nothing.iter(), [], [], MsgFlags::MSG_DONTWAIT).map(drop)
    }
}
