//! Receiving datagrams one by one, by a call that every system has.

use super::Datagram;
use crate::net::{BATCH, Socket};
use arrayvec::ArrayVec;
use std::io::{self, ErrorKind};

pub(super) struct OneByOne {
    /// More than any datagram has, to detect one that is longer than a packet.
    buffer: Box<[u8]>,
}

impl OneByOne {
    pub(super) fn new() -> OneByOne {
        OneByOne { buffer: vec![0; 1 << 16].into() }
    }

    pub(super) fn receive<'b>(
        &mut self,
        socket: &Socket,
        buffers: impl Iterator<Item = &'b mut [u8]>,
        datagrams: &mut ArrayVec<Datagram, BATCH>,
    ) -> io::Result<()> {
        for packet in buffers.take(BATCH) {
            let (length, peer) = match socket.plain().recv_from(&mut self.buffer[..]) {
                Ok(received) => received,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                // Datagrams already received are returned; the error was consumed with its report.
                Err(_) if !datagrams.is_empty() => break,
                Err(error) => return Err(error),
            };
            let fits = length.min(packet.len());
            packet[..fits].copy_from_slice(&self.buffer[..fits]);
            let truncated = fits < length;
            datagrams.push(Datagram { length: fits, truncated, peer: Some(peer), ..Datagram::default() });
        }
        Ok(())
    }
}
