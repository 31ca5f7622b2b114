//! rayon with requests split into small tasks: each quantum of a request is a task that spawns the
//! next one, first in, first out.
//!
//! A worker of rayon looks for work from outside of its pool only when its own queue is empty.
//! While a request is unfinished, the queue is never empty. So receiving is a task of the pool,
//! too, and takes its turn among the others.

use super::{Never, SPIN, ServeArguments, announce};
use crate::service::{Job, Service};
use crate::sockets::{self, Batch, Received};
use anyhow::Result;
use forebay::time::{Nanos, clock};
use nix::sys::socket::MsgFlags;
use rayon::ThreadPoolBuilder;
use std::io::ErrorKind;
use std::net::{SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub(super) fn serve(arguments: &ServeArguments, service: Arc<Service>) -> Result<Never> {
    let socket = sockets::open(1, service.is_emulated())?.remove(0);
    let pool = ThreadPoolBuilder::new().num_threads(arguments.threads).build()?;
    announce(&socket)?;
    let quantum = Nanos::new(arguments.quantum_ns);
    let server = Arc::new(Server { socket, service, quantum, threads: arguments.threads, active: AtomicUsize::new(0) });
    pool.spawn_fifo(move || receive(server, clock::now()));
    loop {
        thread::park();
    }
}

struct Server {
    socket: UdpSocket,
    service: Arc<Service>,
    quantum: Nanos,
    threads: usize,
    /// The number of unfinished requests.
    active: AtomicUsize,
}

/// Spawns a task for each datagram that has come, and then itself again. Blocks for a datagram only
/// if no other task needs this thread.
fn receive(server: Arc<Server>, mut heard_at: Nanos) {
    thread_local! {
        static ROOM: std::cell::RefCell<Option<Batch>> = const { std::cell::RefCell::new(None) };
    }
    // Ordering: relaxed. Only this task adds. If a request has just ended, the next turn sees it.
    let is_needed = || server.active.load(Ordering::Relaxed) >= server.threads;
    let wait = !is_needed() && clock::now().minus(heard_at) >= SPIN;
    let flags = if wait { MsgFlags::MSG_WAITFORONE } else { MsgFlags::MSG_DONTWAIT };
    ROOM.with_borrow_mut(|batch| {
        let batch = batch.get_or_insert_with(|| Batch::new(server.service.is_emulated()));
        match batch.receive(&server.socket, flags) {
            Ok(received) => {
                heard_at = clock::now();
                for (buffer, Received { length, peer, ready_at }) in batch.buffers.iter().zip(received) {
                    let Some(job) = server.service.begin(&buffer[..length], ready_at) else { continue };
                    server.active.fetch_add(1, Ordering::Relaxed);
                    let part =
                        Box::new(Part { server: Arc::clone(&server), job, datagram: buffer[..length].to_vec(), peer });
                    rayon::spawn_fifo(move || go_on(part));
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // If a task panics, rayon ends the process.
            Err(error) => panic!("receiving: {error}"),
        }
    });
    rayon::spawn_fifo(move || receive(server, heard_at));
}

/// A request between two quanta of its cost.
struct Part {
    server: Arc<Server>,
    job: Job,
    datagram: Vec<u8>,
    peer: SocketAddrV4,
}

fn go_on(mut part: Box<Part>) {
    if !part.server.service.go_on(&mut part.job, part.server.quantum) {
        rayon::spawn_fifo(move || go_on(part));
        return;
    }
    let Part { server, job, mut datagram, peer } = *part;
    job.reply(&mut datagram);
    // The client may have gone; the server goes on.
    let _ = server.socket.send_to(&datagram, peer);
    server.active.fetch_sub(1, Ordering::Relaxed);
}
