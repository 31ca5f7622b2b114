//! Control data of a received message: the kernel's information beside its bytes.

use super::Datagram;
use crate::time::Nanos;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage};
use nix::sys::time::TimeSpec;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

pub(super) struct Control {
    pub(super) datagram: Datagram,
    /// The segment size of a GRO batch; `None` for a single datagram.
    pub(super) segment: Option<usize>,
}

impl Control {
    /// Reads the control data of `message`, which was received just now.
    pub(super) fn read(message: &RecvMsg<'_, '_, SockaddrStorage>, now: Nanos) -> Control {
        let datagram = Datagram {
            length: message.bytes,
            truncated: message.flags.contains(MsgFlags::MSG_TRUNC),
            peer: message.address.as_ref().and_then(socket_addr),
            local: None,
            to_group: false,
            kernel_wait: Nanos::ZERO,
            ahead: false,
        };
        let mut read = Control { datagram, segment: None };
        // Truncated control data would mean that too little space was reserved; none of it is used then.
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::ScmTimestampns(stamp) => {
                    read.datagram.kernel_wait = now.minus(nanos(stamp));
                    read.datagram.ahead = nanos(stamp) > now;
                }
                ControlMessageOwned::Ipv4PacketInfo(info) => {
                    let destination = Ipv4Addr::from_bits(u32::from_be(info.ipi_addr.s_addr));
                    read.datagram.local = Some(destination.into());
                    // The address to answer from: the destination itself, if it is one of this host's own.
                    let answers_from = Ipv4Addr::from_bits(u32::from_be(info.ipi_spec_dst.s_addr));
                    read.datagram.to_group = !answers_from.is_unspecified() && answers_from != destination;
                }
                ControlMessageOwned::Ipv6PacketInfo(info) => {
                    read.datagram.local = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                ControlMessageOwned::UdpGroSegments(length) => {
                    read.segment = usize::try_from(length).ok().filter(|length| *length > 0);
                }
                _ => {}
            }
        }
        read
    }
}

fn socket_addr(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = address.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    address
        .as_sockaddr_in6()
        .map(|v6| SocketAddr::V6(SocketAddrV6::new(v6.ip(), v6.port(), v6.flowinfo(), v6.scope_id())))
}

fn nanos(time: TimeSpec) -> Nanos {
    Nanos::from(std::time::Duration::from(time))
}
