//! One thread's connection to a server: 64 flows, what is outstanding on them, and what has come back.
//!
//! A server of one worker answers in the order of arrival, mostly. So the next reply is looked for on the flow of the
//! oldest request outstanding: one system call finds it, where asking all flows or a readiness queue would cost more than
//! the server's own work.

use anyhow::{Context, Result};
use forebay::net::BATCH;
use forebay::time::{Nanos, clock};
use forebay::wire::{HEADER_BYTES, Header, Kind, Status};
use loadgen::drive::flows;
use loadgen::drive::receiver::{Reply, received_at};
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{ReceiveTimestampns, UdpGroSegment, UdpGsoSegment};
use nix::sys::socket::{MsgFlags, MultiHeaders, recvmmsg, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// Source ports.
pub(crate) const FLOWS: u16 = 64;
/// A request outstanding for longer is lost: a server that answers at all answers within a millisecond, once the machine
/// lets it run.
const LOST_AFTER: Nanos = Nanos::from_secs(10);
/// Room for what one call receives on one flow: the longest train that a kernel makes of replies.
const TRAIN_MAX: usize = 128;

/// The flows of one measurement.
pub(crate) struct Line {
    sockets: Vec<UdpSocket>,
    /// The flow of each request that may be outstanding, oldest first.
    order: VecDeque<u16>,
    /// Per flow, replies received whose requests still stand in `order`.
    ahead: Vec<u32>,
    outstanding: usize,
    /// Since when the oldest request has been waited for.
    waiting_since: Nanos,
    headers: MultiHeaders<()>,
    buffers: Vec<[u8; TRAIN_MAX * HEADER_BYTES]>,
    control: Vec<u8>,
    /// Requests without a reply.
    pub(crate) lost: u64,
    /// Datagrams that are no good reply.
    pub(crate) foreign: u64,
}

impl Line {
    /// Flows to `server`. Their datagrams are headers without payload; `train` of them leave in one call, as one
    /// segmentation-offload train if there are more than one. Stamps are asked for with `stamped`.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn open(server: SocketAddr, train: usize, stamped: bool) -> Result<Line> {
        let sockets = flows::open(server, FLOWS)?;
        for socket in &sockets {
            setsockopt(socket, ReceiveTimestampns, &stamped).context("setting stamps")?;
            if train > 1 {
                let segment = i32::try_from(HEADER_BYTES).expect("a header is short");
                setsockopt(socket, UdpGsoSegment, &segment).context("asking for UDP_SEGMENT")?;
                // Whoever sends trains takes them, too.
                setsockopt(socket, UdpGroSegment, &true).context("asking for UDP_GRO")?;
            }
        }
        Ok(Line {
            order: VecDeque::new(),
            ahead: vec![0; sockets.len()],
            sockets,
            outstanding: 0,
            waiting_since: clock::now(),
            headers: MultiHeaders::preallocate(BATCH, None),
            buffers: vec![[0; TRAIN_MAX * HEADER_BYTES]; BATCH],
            control: cmsg_space!(TimeSpec),
            lost: 0,
            foreign: 0,
        })
    }

    /// Requests without a reply so far.
    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends `datagrams`, headers one after the other, from `flow`.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn send(&mut self, flow: u16, datagrams: &[u8]) -> Result<()> {
        let count = datagrams.len() / HEADER_BYTES;
        match self.sockets[usize::from(flow)].send(datagrams) {
            Ok(_) => {}
            // As the rest of the system may be full, a full buffer here is a lost request and no more.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.lost += count as u64;
                return Ok(());
            }
            Err(error) => return Err(error).context("sending"),
        }
        if self.outstanding == 0 {
            self.waiting_since = clock::now();
        }
        self.order.extend(std::iter::repeat_n(flow, count));
        self.outstanding += count;
        Ok(())
    }

    /// The flow on which the next reply should come, if one should.
    fn next_flow(&mut self) -> Option<u16> {
        loop {
            let flow = *self.order.front()?;
            let ahead = &mut self.ahead[usize::from(flow)];
            if *ahead == 0 {
                return Some(flow);
            }
            *ahead -= 1;
            self.order.pop_front();
        }
    }

    /// Takes whatever has come on the flow where the next reply should; returns the number of good replies.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn take_batch(&mut self) -> Result<usize> {
        let Some(flow) = self.next_flow() else { return Ok(0) };
        let mut buffers = self.buffers.iter_mut();
        let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
            std::array::from_fn(|_| [IoSliceMut::new(buffers.next().map_or(&mut [][..], |buffer| &mut buffer[..]))]);
        let socket = self.sockets[usize::from(flow)].as_raw_fd();
        let lengths: arrayvec::ArrayVec<usize, BATCH> =
            match recvmmsg(socket, &mut self.headers, slices.iter_mut(), MsgFlags::MSG_DONTWAIT, None) {
                Ok(messages) => messages.map(|message| message.bytes).collect(),
                Err(Errno::EAGAIN | Errno::EINTR) => arrayvec::ArrayVec::new(),
                Err(errno) => return Err(errno).context("receiving"),
            };
        let mut good = 0;
        for (buffer, length) in self.buffers.iter().zip(lengths) {
            for reply in buffer[..length].chunks(HEADER_BYTES) {
                if good_reply(reply).is_some() { good += 1 } else { self.foreign += 1 }
            }
        }
        self.heard(flow, good);
        Ok(good)
    }

    /// Takes one reply, if it has come where the next should; returns its request's number with it.
    ///
    /// # Errors
    /// What the kernel said.
    pub(crate) fn take_one(&mut self) -> Result<Option<(u64, Reply)>> {
        let Some(flow) = self.next_flow() else { return Ok(None) };
        let mut slices = [IoSliceMut::new(&mut self.buffers[0])];
        let socket = self.sockets[usize::from(flow)].as_raw_fd();
        let (length, at) = match recvmsg::<()>(socket, &mut slices, Some(&mut self.control), MsgFlags::MSG_DONTWAIT) {
            Ok(message) => (message.bytes, received_at(message.cmsgs()?)),
            Err(Errno::EAGAIN | Errno::EINTR) => {
                self.heard(flow, 0);
                return Ok(None);
            }
            Err(errno) => return Err(errno).context("receiving"),
        };
        let reply = good_reply(&self.buffers[0][..length]);
        self.foreign += u64::from(reply.is_none());
        self.heard(flow, usize::from(reply.is_some()));
        Ok(reply
            .map(|header| (header.id, Reply { at, status: header.status, worker: header.served.worker, late: false })))
    }

    fn heard(&mut self, flow: u16, replies: usize) {
        if replies > 0 {
            self.ahead[usize::from(flow)] += replies as u32;
            self.outstanding -= replies.min(self.outstanding);
            self.waiting_since = clock::now();
        } else if clock::now().minus(self.waiting_since) > LOST_AFTER {
            self.order.pop_front();
            self.outstanding -= 1;
            self.lost += 1;
        }
    }
}

fn good_reply(datagram: &[u8]) -> Option<Header> {
    Header::parse(datagram).ok().filter(|header| header.kind == Kind::Reply && header.status == Status::Ok)
}
