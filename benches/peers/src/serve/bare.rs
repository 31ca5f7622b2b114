//! The bare loop: the least that a server of this service can do on stock sockets.

use super::{Never, ServeArguments, Shape, announce};
use crate::service::Service;
use crate::sockets::{self, Received};
use anyhow::{Context, Result, anyhow};
use arrayvec::ArrayVec;
use forebay::net::BATCH;
use forebay::time::Nanos;
use forebay::wire::DATAGRAM_MAX_BYTES;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use std::io::{IoSlice, IoSliceMut};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::thread;

pub(super) fn serve(arguments: &ServeArguments, service: &Service) -> Result<Never> {
    let sockets = sockets::open(arguments.threads, service.is_emulated())?;
    announce(&sockets[0])?;
    let spins = arguments.shape == Shape::BareSpin;
    thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .iter()
            .map(|socket| {
                scope.spawn(move || {
                    if service.is_emulated() { one_by_one(socket, service) } else { batches(socket, service, spins) }
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked"))));
        ended.collect::<Result<Vec<Never>>>()
    })?;
    Err(anyhow!("no thread served"))
}

/// Receives a batch, serves it, sends it.
fn batches(socket: &UdpSocket, service: &Service, spins: bool) -> Result<Never> {
    // The wait is for the first datagram; those behind it are taken as they are there.
    let receive_flags = if spins { MsgFlags::MSG_DONTWAIT } else { MsgFlags::MSG_WAITFORONE };
    let mut buffers = vec![[0; DATAGRAM_MAX_BYTES]; BATCH];
    let mut receive_headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    let mut send_headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    loop {
        let received = receive_batch(socket, &mut receive_headers, &mut buffers, receive_flags)?;
        let mut peers = ArrayVec::<Option<SockaddrIn>, BATCH>::new();
        let mut replies = ArrayVec::<[IoSlice<'_>; 1], BATCH>::new();
        for (buffer, (length, peer)) in buffers.iter_mut().zip(received) {
            let reply = &mut buffer[..length];
            if service.serve(reply, Nanos::ZERO) {
                replies.push([IoSlice::new(reply)]);
                peers.push(peer);
            }
        }
        let mut sent = 0;
        while sent < replies.len() {
            let no_control = [] as [ControlMessage<'_>; 0];
            let (rest, to) = (replies[sent..].iter(), &peers[sent..]);
            let flags = MsgFlags::empty();
            match sendmmsg(socket.as_raw_fd(), &mut send_headers, rest, to, no_control, flags) {
                Ok(results) => sent += results.count(),
                // One that cannot be sent does not keep the others back.
                Err(_) => sent += 1,
            }
        }
    }
}

fn receive_batch(
    socket: &UdpSocket,
    headers: &mut MultiHeaders<SockaddrIn>,
    buffers: &mut [[u8; DATAGRAM_MAX_BYTES]],
    flags: MsgFlags,
) -> Result<ArrayVec<(usize, Option<SockaddrIn>), BATCH>> {
    let mut buffers = buffers.iter_mut();
    let mut slices: [[IoSliceMut<'_>; 1]; BATCH] =
        std::array::from_fn(|_| [IoSliceMut::new(buffers.next().map_or(&mut [][..], |buffer| &mut buffer[..]))]);
    match recvmmsg(socket.as_raw_fd(), headers, slices.iter_mut(), flags, None) {
        Ok(messages) => Ok(messages.map(|message| (message.bytes, message.address)).collect()),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(ArrayVec::new()),
        Err(errno) => Err(errno).context("receiving"),
    }
}

/// On emulated cores a batch would make its replies wait for its last request.
fn one_by_one(socket: &UdpSocket, service: &Service) -> Result<Never> {
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let Received { length, peer, ready_at } = sockets::receive(socket, &mut buffer).context("receiving")?;
        if service.serve(&mut buffer[..length], ready_at) {
            // A client that has gone is no concern of the server's.
            let _ = socket.send_to(&buffer[..length], peer);
        }
    }
}
