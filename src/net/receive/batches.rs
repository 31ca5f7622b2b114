//! Receiving a batch of datagrams in one system call, straight into packets.

use super::Datagram;
use super::cmsg::Control;
use crate::net::{BATCH, Socket};
use crate::time::clock;
use arrayvec::ArrayVec;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::libc::in6_pktinfo;
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::os::fd::AsRawFd;

pub(super) struct Batches {
    headers: MultiHeaders<SockaddrStorage>,
}

impl Batches {
    pub(super) fn new() -> Batches {
        Batches { headers: MultiHeaders::preallocate(BATCH, Some(cmsg_space!(TimeSpec, in6_pktinfo))) }
    }

    pub(super) fn receive<'b>(
        &mut self,
        socket: &Socket,
        buffers: impl Iterator<Item = &'b mut [u8]>,
        datagrams: &mut ArrayVec<Datagram, BATCH>,
    ) -> io::Result<()> {
        let (mut buffers, mut count) = (buffers.take(BATCH), 0);
        // An array and not a vector: memory borrowed by the wrapper for that long must not have a destructor.
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] = std::array::from_fn(|_| match buffers.next() {
            Some(buffer) => {
                count += 1;
                [IoSliceMut::new(buffer)]
            }
            None => [IoSliceMut::new(&mut [])],
        });
        let slices = slices[..count].iter_mut();
        let received = match recvmmsg(socket.as_raw_fd(), &mut self.headers, slices, MsgFlags::MSG_DONTWAIT, None) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let now = clock::realtime();
        datagrams.extend(received.map(|message| Control::read(&message, now).datagram));
        Ok(())
    }
}
