//! What a datagram costs: receives and sends over loopback, by the calls and sockets of a server.

use super::{Effort, Row, Samples};
use crate::fate::DATAGRAM_MAX_BYTES;
use crate::net::{BATCH, Group, Io, KernelLink, Link, Message};
use crate::time::clock;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Bytes of each datagram: a header of the bench protocol is as long.
pub(super) const BYTES: usize = 48;

/// A server's socket, and a batch of peers.
struct Loopback {
    group: Group,
    link: KernelLink,
    buffers: Vec<Vec<u8>>,
    peers: Vec<(UdpSocket, SocketAddr)>,
}

/// What datagrams cost, each in CPU time of the calling thread: with the kernel's part of loopback, and without what
/// other threads do meanwhile.
///
/// # Errors
/// When the system has no sockets for it.
pub(super) fn measure(effort: Effort) -> io::Result<[Row; 5]> {
    let mut loopback = Loopback::open()?;
    let count = effort.samples(400);
    Ok([
        Row::step("receive", loopback.receive(count, BATCH)?, "one of a full batch, CPU time"),
        Row::beside("send, batch", loopback.send(count, BATCH)?, "one of a full batch to as many peers, CPU time"),
        Row::step("poll", loopback.poll(count)?, "a receive that finds nothing, CPU time"),
        Row::beside("receive alone", loopback.receive(count, 1)?, "one by one, CPU time"),
        Row::beside("send alone", loopback.send(count, 1)?, "one by one, CPU time"),
    ])
}

impl Loopback {
    fn open() -> io::Result<Loopback> {
        let group =
            Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).map_err(|refused| refused.source)?;
        let peer = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            socket.connect(group.addresses()[0])?;
            socket.set_nonblocking(true)?;
            let address = socket.local_addr()?;
            Ok((socket, address))
        };
        let peers = (0..BATCH).map(peer).collect::<io::Result<_>>()?;
        let buffers = vec![vec![0; DATAGRAM_MAX_BYTES]; BATCH];
        Ok(Loopback { group, link: KernelLink::new(Io::Batches, Io::Batches, 1), buffers, peers })
    }

    /// Receives one datagram of each peer, `at_once` in one call.
    fn receive(&mut self, count: usize, at_once: usize) -> io::Result<Samples> {
        Samples::try_take(count, BATCH, || {
            for (peer, _) in &self.peers {
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

    /// Sends one datagram to each peer, `at_once` in one call.
    fn send(&mut self, count: usize, at_once: usize) -> io::Result<Samples> {
        Samples::try_take(count, BATCH, || {
            let message =
                |(_, peer): &(UdpSocket, SocketAddr)| Message { bytes: &[0; BYTES], peer: *peer, local: None };
            let messages: Vec<Message<'_>> = self.peers.iter().map(message).collect();
            let start = clock::of_thread();
            for batch in messages.chunks(at_once) {
                let outcomes = self.link.send(&self.group.sockets()[0], batch);
                if outcomes.iter().any(Result::is_err) {
                    return Err(io::Error::other("loopback does not take a datagram"));
                }
            }
            let took = clock::of_thread().minus(start);
            for (peer, _) in &self.peers {
                while peer.recv(&mut [0; BYTES]).is_ok() {}
            }
            Ok(took)
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
