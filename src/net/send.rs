//! Sending a batch of datagrams, each to its own peer.

use super::{BATCH, Socket};
use arrayvec::ArrayVec;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg, sendmsg};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Where it goes.
    pub peer: SocketAddr,
    /// The address it shall come from; `None` where the socket has but one.
    pub local: Option<IpAddr>,
}

/// The memory for sending batches; one per thread.
pub struct Sender {
    headers: MultiHeaders<SockaddrStorage>,
}

impl Sender {
    /// A sender for batches of at most [`BATCH`].
    pub fn new() -> Sender {
        Sender { headers: MultiHeaders::preallocate(BATCH, None) }
    }

    /// Sends `messages` in their order and tells of each whether the kernel took it. One that fails does not keep the
    /// others back.
    ///
    /// # Panics
    /// With more than [`BATCH`] messages.
    pub fn send(&mut self, socket: &Socket, messages: &[Message<'_>]) -> ArrayVec<bool, BATCH> {
        let mut taken = ArrayVec::new();
        assert!(messages.len() <= BATCH, "a batch has at most {BATCH} messages");
        while let Some(rest) = messages.get(taken.len()..).filter(|rest| !rest.is_empty()) {
            if rest[0].local.is_some() {
                taken.push(send_from(socket, &rest[0]));
                continue;
            }
            let count = rest.iter().take_while(|message| message.local.is_none()).count();
            let sent = self.send_run(socket, &rest[..count]);
            (0..sent).for_each(|_| taken.push(true));
            // The kernel stops at the first message that it does not take: that one has failed, the others have not.
            if sent < count {
                taken.push(false);
            }
        }
        taken
    }

    /// Sends messages that need no source address; returns how many the kernel took before one failed.
    fn send_run(&mut self, socket: &Socket, messages: &[Message<'_>]) -> usize {
        let slices: ArrayVec<[IoSlice<'_>; 1], BATCH> =
            messages.iter().map(|message| [IoSlice::new(message.bytes)]).collect();
        let peers: ArrayVec<Option<SockaddrStorage>, BATCH> =
            messages.iter().map(|message| Some(message.peer.into())).collect();
        loop {
            let sent = sendmmsg(
                socket.as_raw_fd(),
                &mut self.headers,
                slices.iter(),
                &peers,
                [] as [ControlMessage<'_>; 0],
                MsgFlags::MSG_DONTWAIT,
            );
            match sent {
                Ok(results) => return results.count(),
                Err(Errno::EINTR) => {}
                Err(_) => return 0,
            }
        }
    }
}

impl Default for Sender {
    fn default() -> Sender {
        Sender::new()
    }
}

/// Sends one message from its own local address: the wrapper around `sendmmsg` shares its control data among all
/// messages, and a wildcard bind is worth one call per message.
fn send_from(socket: &Socket, message: &Message<'_>) -> bool {
    let slice = [IoSlice::new(message.bytes)];
    let peer = SockaddrStorage::from(message.peer);
    let send = |control: &[ControlMessage<'_>]| {
        sendmsg(socket.as_raw_fd(), &slice, control, MsgFlags::MSG_DONTWAIT, Some(&peer)).is_ok()
    };
    match message.local {
        None => send(&[]),
        Some(IpAddr::V4(local)) => {
            let info = nix::libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: nix::libc::in_addr { s_addr: u32::from(local).to_be() },
                ipi_addr: nix::libc::in_addr { s_addr: 0 },
            };
            send(&[ControlMessage::Ipv4PacketInfo(&info)])
        }
        Some(IpAddr::V6(local)) => {
            let info =
                nix::libc::in6_pktinfo { ipi6_addr: nix::libc::in6_addr { s6_addr: local.octets() }, ipi6_ifindex: 0 };
            send(&[ControlMessage::Ipv6PacketInfo(&info)])
        }
    }
}
