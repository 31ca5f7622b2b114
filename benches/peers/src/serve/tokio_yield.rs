//! tokio with requests that yield: one socket, one task per packet, `yield_now` after each quantum
//! of its cost.
//!
//! Whenever the receiving task runs, it takes all datagrams that have come, in batches. Before it
//! sleeps it yields for a while. Meanwhile the runtime asks for events between its turns, instead
//! of waiting for one.

use super::{Never, SPIN, ServeArguments, announce};
use crate::service::Service;
use crate::sockets::{self, Batch, Received};
use anyhow::{Context, Result};
use forebay::inside::net::BATCH;
use forebay::time::{Nanos, clock};
use nix::sys::socket::MsgFlags;
use std::cell::RefCell;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::runtime::Builder;
use tokio::task::yield_now;

pub(super) fn serve(arguments: &ServeArguments, service: &Arc<Service>) -> Result<Never> {
    // With one thread, no other thread can steal, so the simpler runtime is enough.
    let mut builder = if arguments.threads == 1 { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.worker_threads(arguments.threads).enable_io().build().context("starting a runtime")?;
    let socket = sockets::open(1, service.is_emulated())?.remove(0);
    announce(&socket)?;
    socket.set_nonblocking(true)?;
    let quantum = Nanos::new(arguments.quantum_ns);
    let service = Arc::clone(service);
    runtime.block_on(async move {
        let socket = Arc::new(UdpSocket::from_std(socket)?);
        // A task of its own, because `block_on` would not run it on a worker.
        tokio::spawn(receive(socket, service, quantum)).await?.context("receiving")
    })
}

async fn receive(socket: Arc<UdpSocket>, service: Arc<Service>, quantum: Nanos) -> io::Result<Never> {
    let mut heard_at = clock::now();
    loop {
        match socket.try_io(Interest::READABLE, || receive_batch(&socket, &service, quantum, &mut heard_at)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if clock::now().minus(heard_at) < SPIN {
                    yield_now().await;
                } else {
                    socket.readable().await?;
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Spawns a task for each datagram of a batch. If the batch is not full, it also returns
/// [`ErrorKind::WouldBlock`]. This saves a call that would find nothing, because the runtime learns
/// of later datagrams.
fn receive_batch(
    socket: &Arc<UdpSocket>,
    service: &Arc<Service>,
    quantum: Nanos,
    heard_at: &mut Nanos,
) -> io::Result<()> {
    thread_local! {
        static ROOM: RefCell<Option<Batch>> = const { RefCell::new(None) };
    }
    ROOM.with_borrow_mut(|batch| {
        let batch = batch.get_or_insert_with(|| Batch::new(service.is_emulated()));
        let received = batch.receive(&**socket, MsgFlags::MSG_DONTWAIT)?;
        *heard_at = clock::now();
        let is_full = received.len() == BATCH;
        for (buffer, Received { length, peer, ready_at }) in batch.buffers.iter().zip(received) {
            let Some(mut job) = service.begin(&buffer[..length], ready_at) else { continue };
            let mut datagram = buffer[..length].to_vec();
            let (socket, service) = (Arc::clone(socket), Arc::clone(service));
            tokio::spawn(async move {
                while !service.go_on(&mut job, quantum) {
                    yield_now().await;
                }
                job.reply(&mut datagram);
                // The client may have gone; the server goes on.
                let _ = socket.send_to(&datagram, peer).await;
            });
        }
        if is_full { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    })
}
