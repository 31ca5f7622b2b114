//! Measures the cost of receiving a datagram over loopback, by the calls and sockets of a server.

use super::{StepSamples, samples};
use forebay::fate::DATAGRAM_MAX_BYTES;
use forebay::inside::net::{BATCH, Group, Io, KernelLink, Link};
use forebay::time::clock;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};

/// The length of a datagram, equal to the length of a header of the bench protocol.
pub(super) const BYTES: usize = 48;

/// The cost of a receive with datagrams, and of one without, in CPU time of the calling thread.
/// This includes the kernel's part of loopback, and excludes other threads.
///
/// # Errors
/// When the system provides no sockets.
pub(super) fn measure(part: usize) -> io::Result<[StepSamples; 2]> {
    const POLLS: u64 = 32;
    let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).map_err(|(_, error)| error)?;
    let peer = |_| {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(group.addresses[0])?;
        Ok(socket)
    };
    let peers = (0..BATCH).map(peer).collect::<io::Result<Vec<UdpSocket>>>()?;
    let (mut link, mut buffers) =
        (KernelLink::new(Io::Batches, 1, |_, _| false, false), vec![vec![0; DATAGRAM_MAX_BYTES]; BATCH]);
    let mut call = || link.receive(&group.sockets[0], buffers.iter_mut().map(Vec::as_mut_slice));
    let receive = samples(400 / part, BATCH as u64, || {
        // Each peer sends one datagram. If all have arrived, one call receives them.
        peers.iter().try_for_each(|peer| peer.send(&[0; BYTES]).map(drop))?;
        let (start, mut received) = (clock::of_thread(), 0);
        while received < BATCH {
            match call()? {
                0 => return Err(io::Error::other("loopback has lost a datagram")),
                came => received += came,
            }
        }
        Ok(clock::of_thread().minus(start))
    })?;
    let poll = samples(400 / part, POLLS, || {
        let start = clock::of_thread();
        (0..POLLS).try_for_each(|_| call().map(drop))?;
        Ok(clock::of_thread().minus(start))
    })?;
    Ok([("receive", receive), ("poll", poll)])
}
