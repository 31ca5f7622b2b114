//! Receiving into a buffer, from which datagrams are copied into packets.
//!
//! Either they come one by one, by a call that every system has, or as GRO batches. The kernel returns the datagrams of
//! such a batch, which are of one sender, as one (`UDP_GRO`).
//!
//! A GRO batch is received whole into a buffer for the longest one, and copied into packets datagram by datagram. Each
//! GRO batch takes one call. The wrapper around `recvmmsg` keeps of each header only the space for control data that
//! the last message needed. A GRO batch needs more of it than a single datagram.

use super::{Control, Datagram};
use crate::net::{BATCH, Socket};
use crate::time::clock;
use arrayvec::ArrayVec;
use nix::cmsg_space;
use nix::libc::in6_pktinfo;
use nix::sys::socket::{MsgFlags, SockaddrStorage, recvmsg};
use nix::sys::time::TimeSpec;
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::fd::AsRawFd;

/// The largest datagram or GRO batch.
const GRO_BATCH_MAX_BYTES: usize = 1 << 16;

pub(super) struct Copied {
    buffer: Box<[u8]>,
    /// Space for control data; `None` where datagrams come one by one.
    control: Option<Vec<u8>>,
    batch: GroBatch,
}

/// The rest of the GRO batch in the buffer.
#[derive(Clone, Copy)]
struct GroBatch {
    start: usize,
    end: usize,
    /// The length of each datagram; only the last may be shorter.
    segment: usize,
    /// Metadata common to all datagrams of the batch.
    datagram: Datagram,
}

impl Copied {
    /// Receives GRO batches, or datagrams one by one.
    pub(super) fn new(gro: bool) -> Copied {
        let control = gro.then(|| cmsg_space!(TimeSpec, in6_pktinfo, i32));
        let batch = GroBatch { start: 0, end: 0, segment: 1, datagram: Datagram::default() };
        Copied { buffer: vec![0; GRO_BATCH_MAX_BYTES].into(), control, batch }
    }

    /// The number of datagrams left of a GRO batch; the next call returns them, whatever socket it is for.
    pub(super) fn left(&self) -> usize {
        let GroBatch { start, end, segment, .. } = self.batch;
        end.saturating_sub(start).div_ceil(segment)
    }

    /// Drops the datagrams that are left of the GRO batch.
    pub(super) fn discard(&mut self) {
        self.batch.start = self.batch.end;
    }

    pub(super) fn receive<'b>(
        &mut self,
        socket: &Socket,
        buffers: impl Iterator<Item = &'b mut [u8]>,
        datagrams: &mut ArrayVec<Datagram, BATCH>,
    ) -> io::Result<()> {
        // The rest of a GRO batch is returned alone: a further batch might again leave a rest.
        let resumes = self.left() > 0;
        for packet in buffers.take(BATCH) {
            if self.left() == 0 {
                if resumes {
                    break;
                }
                match self.receive_gro_batch(socket) {
                    Ok(()) => {}
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => break,
                    // Datagrams already received are returned; the error was consumed with its report.
                    Err(_) if !datagrams.is_empty() => break,
                    Err(error) => return Err(error),
                }
            }
            datagrams.push(self.cut(packet));
        }
        Ok(())
    }

    /// Receives one datagram or GRO batch into the buffer, which must be empty.
    fn receive_gro_batch(&mut self, socket: &Socket) -> io::Result<()> {
        let Control { datagram, segment } = if let Some(space) = &mut self.control {
            let (mut slices, flags) = ([IoSliceMut::new(&mut self.buffer)], MsgFlags::MSG_DONTWAIT);
            let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut slices, Some(space), flags)?;
            Control::read(&message, clock::realtime())
        } else {
            let (length, peer) = socket.recv_from(&mut self.buffer)?;
            Control { datagram: Datagram { length, peer: Some(peer), ..Datagram::default() }, segment: None }
        };
        // An empty datagram counts as one datagram too.
        let (end, segment) = (datagram.length.max(1), segment.unwrap_or(GRO_BATCH_MAX_BYTES));
        self.batch = GroBatch { start: 0, end, segment, datagram };
        Ok(())
    }

    /// Copies the next datagram of the GRO batch into `packet`.
    fn cut(&mut self, packet: &mut [u8]) -> Datagram {
        let GroBatch { start, end, segment, datagram } = self.batch;
        let next = end.min(start + segment);
        self.batch.start = next;
        let length = (next - start).min(datagram.length);
        let fits = length.min(packet.len());
        packet[..fits].copy_from_slice(&self.buffer[start..start + fits]);
        Datagram { length: fits, truncated: datagram.truncated || fits < length, ..datagram }
    }
}
