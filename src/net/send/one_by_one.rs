//! Sending messages one by one, by a call that every system has.

use super::gso::{Call, GsoPlan};
use super::{Backend, Message};
use crate::net::Socket;
use nix::errno::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub(super) struct OneByOne;

impl Backend for OneByOne {
    fn send(
        &mut self,
        socket: &Socket,
        messages: &[Message<'_>],
        plan: &GsoPlan,
        at: usize,
        _: Call,
    ) -> Result<usize, Errno> {
        for number in plan.messages(&plan.batches()[at]) {
            let Message { bytes, peer, .. } = messages[*number];
            let sent = socket.plain().send_to(bytes, peer);
            // An error without a number is from the library itself, about an address that no socket takes.
            sent.map_err(|error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))?;
        }
        Ok(1)
    }

    fn probe(&mut self, socket: &Socket) -> Result<(), Errno> {
        // Nothing can be sent to port 0: a permitted call reports that and does nothing else.
        let nowhere: IpAddr = if socket.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let sent = socket.plain().send_to(&[], SocketAddr::new(nowhere, 0));
        match sent.map_err(|error| error.raw_os_error().map(Errno::from_raw)) {
            Err(Some(errno @ (Errno::EPERM | Errno::EACCES | Errno::ENOSYS | Errno::EOPNOTSUPP))) => Err(errno),
            _ => Ok(()),
        }
    }
}
