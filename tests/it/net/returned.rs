//! Datagrams that no port accepted and the host returned. The kernel queues an ICMP error for each
//! at the sending socket, sometimes a moment after the send.

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use socket2::{SockFilter, SockRef};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use support::prelude::*;

/// Asks for the errors of a socket that is connected to a server. From now on the socket receives
/// nothing else.
pub(crate) fn ask_for_returned(socket: &impl AsFd) {
    // A socket of IPv6 takes the option of IPv4 too.
    let of_v6 = setsockopt(&socket.as_fd(), sockopt::Ipv6RecvErr, &true);
    of_v6.or_else(|_| setsockopt(&socket.as_fd(), sockopt::Ipv4RecvErr, &true)).expect("a UDP socket");
    // A filter ("return 0") keeps answers out, and earlier ones are read, because they would fill
    // the buffer that errors need. A raw socket receives every datagram of the host until it is
    // bound.
    let socket = SockRef::from(socket);
    socket.attach_filter(&[SockFilter::new(0x06, 0, 0, 0)]).expect("a filter");
    let mut bytes = [const { MaybeUninit::uninit() }; 1];
    while socket.recv_with_flags(&mut bytes, MsgFlags::MSG_DONTWAIT.bits()).is_ok() {}
}

/// How many datagrams were returned since the last call.
pub(crate) fn returned(socket: &impl AsRawFd) -> u64 {
    let mut count = 0;
    let mut bytes = [0; 256];
    loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut control = nix::cmsg_space!(nix::libc::sock_extended_err, nix::libc::sockaddr_in6);
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        match recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(&mut control), flags) {
            Ok(message) => {
                let mut controls = message.cmsgs().expect("enough space");
                let is_error = |control: ControlMessageOwned| {
                    matches!(control, ControlMessageOwned::Ipv4RecvErr(..) | ControlMessageOwned::Ipv6RecvErr(..))
                };
                assert!(controls.any(is_error));
                count += 1;
            }
            Err(nix::errno::Errno::EAGAIN) => return count,
            // The same error again; the queue already has it.
            Err(nix::errno::Errno::ECONNREFUSED) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until each of the `sent` datagrams that was not `counted` has been returned to its sender.
/// `come_back` says how many were returned since its last call.
#[track_caller]
pub(crate) fn await_returned(sent: u64, counted: u64, come_back: impl Fn() -> u64, what: &str) {
    let mut missing = sent.checked_sub(counted).unwrap_or_else(|| panic!("{what}: sent {sent}, counted {counted}"));
    let complaint = format!("{what}: of {sent} {missing} were not counted, and fewer came back");
    await_until(
        || {
            missing = missing.checked_sub(come_back()).expect("no datagram has two ends");
            missing == 0
        },
        &complaint,
    );
}
