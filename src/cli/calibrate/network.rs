//! What receiving a datagram costs, over loopback, by the calls and sockets of a server.

use super::{Row, Samples};
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
pub(super) fn measure(part: usize) -> io::Result<[Row; 2]> {
    let mut loopback = Loopback::open()?;
    let count = 400 / part;
    Ok([Row::new("receive", loopback.receive(count)?), Row::new("poll", loopback.poll(count)?)])
}

impl Loopback {
    fn open() -> io::Result<Loopback> {
        let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).map_err(|(_, error)| error)?;
        let peer = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(group.addresses()[0])?;
            Ok(socket)
        };
        let peers = (0..BATCH).map(peer).collect::<io::Result<_>>()?;
        let buffers = vec![vec![0; DATAGRAM_MAX_BYTES]; BATCH];
        Ok(Loopback { group, link: KernelLink::new(Io::Batches, 1), buffers, peers })
    }

    /// Receives one datagram of each peer, all in one call where they have come.
    fn receive(&mut self, count: usize) -> io::Result<Samples> {
        Samples::try_take(count, BATCH as u64, || {
            for peer in &self.peers {
                peer.send(&[0; BYTES])?;
            }
            let start = clock::of_thread();
            let mut received = 0;
            while received < BATCH {
                let came = self.call()?;
                if came == 0 {
                    return Err(io::Error::other("loopback has lost a datagram"));
                }
                received += came;
            }
            Ok(clock::of_thread().minus(start))
        })
    }

    fn poll(&mut self, count: usize) -> io::Result<Samples> {
        const POLLS: u64 = 32;
        Samples::try_take(count, POLLS, || {
            let start = clock::of_thread();
            for _ in 0..POLLS {
                self.call()?;
            }
            Ok(clock::of_thread().minus(start))
        })
    }

    fn call(&mut self) -> io::Result<usize> {
        let buffers = self.buffers.iter_mut().map(Vec::as_mut_slice);
        self.link.receive(&self.group.sockets()[0], buffers)
    }
}
