//! What receiving a datagram costs, over loopback, by the calls and sockets of a server.

use super::{Effort, Row, Samples};
use crate::fate::DATAGRAM_MAX_BYTES;
use crate::net::{BATCH, Group, Io, KernelLink, Link};
use crate::time::clock;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// Bytes of each datagram: a header of the bench protocol is as long.
pub(super) const BYTES: usize = 48;

/// A server's socket, and a batch of peers.
struct Loopback {
    group: Group,
    link: KernelLink,
    buffers: Vec<Vec<u8>>,
    peers: Vec<UdpSocket>,
}

/// What receives cost, each in CPU time of the calling thread: with the kernel's part of loopback, and without what
/// other threads do meanwhile.
///
/// # Errors
/// When the system has no sockets for it.
pub(super) fn measure(effort: Effort) -> io::Result<[Row; 3]> {
    let mut loopback = Loopback::open()?;
    let count = effort.samples(400);
    Ok([
        Row::step("receive", loopback.receive(count, BATCH)?, "one of a full batch, CPU time"),
        Row::step("poll", loopback.poll(count)?, "a receive that finds nothing, CPU time"),
        Row::beside("receive alone", loopback.receive(count, 1)?, "one by one, CPU time"),
    ])
}

impl Loopback {
    fn open() -> io::Result<Loopback> {
        let group =
            Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).map_err(|refused| refused.source)?;
        let peer = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(group.addresses()[0])?;
            Ok(socket)
        };
        let peers = (0..BATCH).map(peer).collect::<io::Result<_>>()?;
        let buffers = vec![vec![0; DATAGRAM_MAX_BYTES]; BATCH];
        Ok(Loopback { group, link: KernelLink::new(Io::Batches, Io::Batches, 1), buffers, peers })
    }

    /// Receives one datagram of each peer, `at_once` in one call.
    fn receive(&mut self, count: usize, at_once: usize) -> io::Result<Samples> {
        Samples::try_take(count, BATCH, || {
            for peer in &self.peers {
                peer.send(&[0; BYTES])?;
            }
            let start = clock::of_thread();
            let mut received = 0;
            while received < BATCH {
                let buffers = self.buffers.iter_mut().take(at_once).map(Vec::as_mut_slice);
                let came = self.link.receive(&self.group.sockets()[0], buffers)?;
                if came == 0 {
                    return Err(io::Error::other("loopback has lost a datagram"));
                }
                received += came;
            }
            Ok(clock::of_thread().minus(start))
        })
    }

    fn poll(&mut self, count: usize) -> io::Result<Samples> {
        const POLLS: usize = 32;
        Samples::try_take(count, POLLS, || {
            let start = clock::of_thread();
            for _ in 0..POLLS {
                let buffers = self.buffers.iter_mut().map(Vec::as_mut_slice);
                self.link.receive(&self.group.sockets()[0], buffers)?;
            }
            Ok(clock::of_thread().minus(start))
        })
    }
}
