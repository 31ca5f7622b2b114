//! The kernel's notice of an arrival: a bit in memory shared with one thread.
//!
//! Each worker has an `io_uring` with a one-shot poll of the watch set. When a datagram arrives,
//! the kernel queues the completion and sets `IORING_SQ_TASKRUN` in the mapped ring
//! (`IORING_SETUP_TASKRUN_FLAG`, Linux 5.19). It does not interrupt the thread
//! (`IORING_SETUP_DEFER_TASKRUN`, 6.1), and a checkpoint reads the bit with one load.
//!
//! The poll is exclusive, so each datagram sets one bit: that of the worker whose poll is oldest.
//! This poll then leaves the kernel's wait queue, and the next datagram sets the next worker's bit.
//! README.md in this folder proves that no arrival is missed.

use io_uring::{IoUring, opcode, squeue, types};
use nix::libc::{EPOLLEXCLUSIVE, EPOLLIN};
use std::io;
use std::os::fd::RawFd;

/// Number of places in the ring. One poll and its removal need two.
const ENTRIES: u32 = 4;

/// The number of every removal. Polls have other numbers.
const REMOVAL: u64 = 0;

/// The ring of one worker's thread.
pub(super) struct Ring {
    ring: IoUring,
    watch_set: RawFd,
    /// Whether the poll is in the ring.
    armed: bool,
    /// The number of the last poll, which identifies its completion.
    number: u64,
}

impl Ring {
    /// A ring for the calling thread that reports arrivals in `watch_set`.
    ///
    /// # Errors
    /// When the kernel has no `io_uring` of this kind, or forbids it.
    pub(super) fn new(watch_set: RawFd) -> io::Result<Ring> {
        let mut builder = IoUring::builder();
        let ring = builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(ENTRIES)?;
        Ok(Ring { ring, watch_set, armed: false, number: 0 })
    }

    /// Whether a datagram has arrived since the poll entered the ring.
    #[inline]
    pub(super) fn is_raised(&mut self) -> bool {
        self.armed && self.ring.submission().taskrun()
    }

    /// Puts the poll into the ring, unless it is already there. Returns whether a datagram has
    /// already arrived; if so, the poll is no longer in the ring.
    ///
    /// # Errors
    /// When the kernel refuses. The ring is then useless.
    pub(super) fn arm(&mut self) -> io::Result<bool> {
        if !self.armed {
            self.number += 1;
            // `poll` and `epoll` use the same bits, and both masks are positive.
            let mask = (EPOLLIN | EPOLLEXCLUSIVE).cast_unsigned();
            let poll = opcode::PollAdd::new(types::Fd(self.watch_set), mask).build();
            self.push(&poll.user_data(self.number))?;
            self.armed = true;
        } else if !self.ring.submission().taskrun() {
            return Ok(false);
        }
        self.take()
    }

    /// Takes the notice of an arrival. Returns whether there was one; if so, the poll is no longer
    /// in the ring.
    ///
    /// # Errors
    /// As [`Ring::arm`].
    pub(super) fn take(&mut self) -> io::Result<bool> {
        // Submits what was pushed, and runs the work that the kernel deferred.
        self.ring.submit()?;
        let mut come = false;
        for completion in self.ring.completion() {
            // All other completions belong to removed polls and to removals.
            if completion.user_data() == self.number && self.armed {
                come = true;
                self.armed = false;
                if completion.result() < 0 {
                    return Err(io::Error::from_raw_os_error(-completion.result()));
                }
            }
        }
        Ok(come)
    }

    /// Takes the poll out of the ring, if it is there. Arrivals then set the bits of other workers.
    ///
    /// # Errors
    /// As [`Ring::arm`].
    pub(super) fn disarm(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.armed) {
            self.push(&opcode::PollRemove::new(self.number).build().user_data(REMOVAL))?;
            self.take()?;
        }
        Ok(())
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the entries of this file refer to no memory of this process. A poll names a
        // descriptor by its number. The kernel looks the number up at submission, and keeps the
        // file open while the poll is in the ring.
        #[expect(unsafe_code, reason = "a checkpoint that sees an arrival by one load: benches/README.md")]
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring is full"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::unix::{SourceFd, pipe};
    use mio::{Events, Interest, Poll, Token};
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::time::Duration;

    /// A watch set with one pipe, and the two ends of the pipe.
    fn watched() -> (Poll, pipe::Sender, pipe::Receiver) {
        let (watch_set, (sender, receiver)) = (Poll::new().expect("a queue"), pipe::new().expect("a pipe"));
        let fd = receiver.as_raw_fd();
        watch_set.registry().register(&mut SourceFd(&fd), Token(0), Interest::READABLE).expect("registered");
        (watch_set, sender, receiver)
    }

    fn send(sender: &mut pipe::Sender) {
        assert_eq!(sender.write(b"x").expect("room"), 1);
    }

    /// Empties the pipe and takes its event.
    fn drain(watch_set: &mut Poll, receiver: &mut pipe::Receiver) {
        watch_set.poll(&mut Events::with_capacity(4), Some(Duration::ZERO)).expect("a look");
        while receiver.read(&mut [0; 8]).is_ok() {}
    }

    // Does each arming give one notice, also if the datagram arrived before it?
    #[test]
    fn an_arrival_raises_the_bit() {
        let (mut watch_set, mut sender, mut receiver) = watched();
        let mut ring = Ring::new(watch_set.as_raw_fd()).expect("a ring");
        for round in 0..3 {
            assert!(!ring.arm().expect("armed"), "{round}: nothing has come");
            assert!(!ring.is_raised() && !ring.arm().expect("armed"), "{round}");
            send(&mut sender);
            assert!(ring.is_raised(), "{round}");
            assert!(ring.take().expect("taken") && !ring.is_raised(), "{round}");
            drain(&mut watch_set, &mut receiver);
        }
        send(&mut sender);
        assert!(!ring.is_raised(), "it was not armed");
        assert!(ring.arm().expect("armed") && !ring.is_raised(), "what came before is noticed at once");
    }

    // After a poll is removed, does an arrival set another worker's bit? After the poll is armed
    // again, does it set this worker's?
    #[test]
    fn what_was_taken_out_hears_of_nothing() {
        let (mut watch_set, mut sender, mut receiver) = watched();
        let mut rings = [(); 2].map(|()| Ring::new(watch_set.as_raw_fd()).expect("a ring"));
        for round in 0..20 {
            rings.iter_mut().for_each(|ring| assert!(!ring.arm().expect("armed"), "{round}"));
            rings[0].disarm().expect("taken out");
            send(&mut sender);
            assert_eq!(rings.each_mut().map(Ring::is_raised), [false, true], "{round}");
            drain(&mut watch_set, &mut receiver);
            assert!(rings[1].take().expect("taken") && !rings[0].take().expect("taken"), "{round}");
        }
    }

    // Does each arrival set one bit, that of the ring that was armed first?
    #[test]
    fn each_arrival_raises_one_bit() {
        let (mut watch_set, mut sender, mut receiver) = watched();
        let mut rings = [(); 3].map(|()| Ring::new(watch_set.as_raw_fd()).expect("a ring"));
        for round in 0..4 {
            rings.iter_mut().for_each(|ring| assert!(!ring.arm().expect("armed"), "{round}"));
            for expected in [[true, false, false], [true, true, false], [true, true, true]] {
                send(&mut sender);
                assert_eq!(rings.each_mut().map(Ring::is_raised), expected, "{round}");
                drain(&mut watch_set, &mut receiver);
            }
            rings.iter_mut().for_each(|ring| assert!(ring.take().expect("taken"), "{round}"));
        }
    }
}
