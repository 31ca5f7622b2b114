//! tokio's multi-threaded runtime, in three shapes that run a request without interruption.

use super::{Never, ServeArguments, Shape, announce};
use crate::service::{self, Service};
use crate::sockets::{self, Received};
use anyhow::{Context, Result, anyhow};
use forebay::inside::wire::DATAGRAM_MAX_BYTES;
use forebay::time::Nanos;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::Builder;

pub(super) fn serve(arguments: &ServeArguments, service: &Arc<Service>) -> Result<Never> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(arguments.threads)
        .max_blocking_threads(arguments.blocking)
        .enable_io()
        .build()
        .context("starting a runtime")?;
    let count = if arguments.shape == Shape::TokioLoop { arguments.threads } else { 1 };
    let sockets = sockets::open(count, service.is_emulated())?;
    announce(&sockets[0])?;
    let heavy = (arguments.shape == Shape::TokioBlocking).then(|| Nanos::new(arguments.heavy_ns));
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for socket in sockets {
            socket.set_nonblocking(true)?;
            let (socket, service) = (UdpSocket::from_std(socket)?, Arc::clone(service));
            tasks.push(match arguments.shape {
                Shape::TokioLoop => tokio::spawn(serve_in_turn(socket, service)),
                _ => tokio::spawn(serve_in_tasks(Arc::new(socket), service, heavy)),
            });
        }
        for task in tasks {
            task.await??;
        }
        Err(anyhow!("no task served"))
    })
}

async fn serve_in_turn(socket: UdpSocket, service: Arc<Service>) -> io::Result<Never> {
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let Received { length, peer, ready_at } = receive(&socket, &service, &mut buffer).await?;
        if service.serve(&mut buffer[..length], ready_at) {
            // The client may have gone; the server goes on.
            let _ = socket.send_to(&buffer[..length], peer).await;
        }
    }
}

async fn serve_in_tasks(socket: Arc<UdpSocket>, service: Arc<Service>, heavy: Option<Nanos>) -> io::Result<Never> {
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let Received { length, peer, ready_at } = receive(&socket, &service, &mut buffer).await?;
        let mut datagram = buffer[..length].to_vec();
        let (socket, service) = (Arc::clone(&socket), Arc::clone(&service));
        if heavy.is_some_and(|heavy| service::cost(&datagram) > heavy) {
            tokio::task::spawn_blocking(move || {
                if service.serve(&mut datagram, ready_at) {
                    let _ = socket.try_send_to(&datagram, peer.into());
                }
            });
        } else {
            tokio::spawn(async move {
                if service.serve(&mut datagram, ready_at) {
                    let _ = socket.send_to(&datagram, peer).await;
                }
            });
        }
    }
}

async fn receive(socket: &UdpSocket, service: &Service, buffer: &mut [u8]) -> io::Result<Received> {
    if service.is_emulated() {
        return socket.async_io(Interest::READABLE, || sockets::receive(socket, buffer)).await;
    }
    match socket.recv_from(buffer).await? {
        (length, SocketAddr::V4(peer)) => Ok(Received { length, peer, ready_at: Nanos::ZERO }),
        (_, SocketAddr::V6(_)) => Err(io::Error::other("a sender of another address family")),
    }
}
