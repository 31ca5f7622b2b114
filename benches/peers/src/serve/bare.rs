//! The bare loop: the least work with which a server can offer this service on stock sockets.

use super::{Never, ServeArguments, announce};
use crate::service::Service;
use crate::sockets::{self, Batch, Received};
use anyhow::{Context, Result, anyhow};
use arrayvec::ArrayVec;
use forebay::inside::net::BATCH;
use forebay::inside::wire::DATAGRAM_MAX_BYTES;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrIn, sendmmsg};
use std::io::{ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::thread;

pub(super) fn serve(arguments: &ServeArguments, service: &Service) -> Result<Never> {
    let sockets = sockets::open(arguments.threads, service.is_emulated())?;
    announce(&sockets[0])?;
    thread::scope(|scope| {
        let threads: Vec<_> = sockets
            .iter()
            .map(|socket| {
                scope.spawn(
                    move || {
                        if service.is_echo() { batches(socket, service) } else { one_by_one(socket, service) }
                    },
                )
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("it panicked"))));
        ended.collect::<Result<Vec<Never>>>()
    })?;
    Err(anyhow!("no thread served"))
}

/// Receives a batch, serves it and sends the replies, for ever.
fn batches(socket: &UdpSocket, service: &Service) -> Result<Never> {
    let mut batch = Batch::new(false);
    let mut send_headers = MultiHeaders::<SockaddrIn>::preallocate(BATCH, None);
    loop {
        let received = match batch.receive(socket, MsgFlags::MSG_WAITFORONE) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(error).context("receiving"),
        };
        let mut peers = ArrayVec::<Option<SockaddrIn>, BATCH>::new();
        let mut replies = ArrayVec::<[IoSlice<'_>; 1], BATCH>::new();
        for (buffer, Received { length, peer, ready_at }) in batch.buffers.iter_mut().zip(received) {
            let reply = &mut buffer[..length];
            if service.serve(reply, ready_at) {
                replies.push([IoSlice::new(reply)]);
                peers.push(Some(peer.into()));
            }
        }
        let mut sent = 0;
        while sent < replies.len() {
            let no_control = [] as [ControlMessage<'_>; 0];
            let (rest, to) = (replies[sent..].iter(), &peers[sent..]);
            let flags = MsgFlags::empty();
            match sendmmsg(socket.as_raw_fd(), &mut send_headers, rest, to, no_control, flags) {
                Ok(results) => sent += results.count(),
                // A reply that cannot be sent must not hold back the others.
                Err(_) => sent += 1,
            }
        }
    }
}

/// Serves one request at a time. In a batch, the first reply would wait for the last request.
fn one_by_one(socket: &UdpSocket, service: &Service) -> Result<Never> {
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let Received { length, peer, ready_at } = sockets::receive(socket, &mut buffer).context("receiving")?;
        if service.serve(&mut buffer[..length], ready_at) {
            // The client may have gone; the server goes on.
            let _ = socket.send_to(&buffer[..length], peer);
        }
    }
}
