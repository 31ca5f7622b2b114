//! rayon behind one socket: a receiving thread spawns each request into the pool.

use super::{Never, ServeArguments, announce};
use crate::service::Service;
use crate::sockets::{self, Received};
use anyhow::{Context, Result};
use forebay::inside::wire::DATAGRAM_MAX_BYTES;
use rayon::ThreadPoolBuilder;
use std::sync::Arc;

pub(super) fn serve(arguments: &ServeArguments, service: &Arc<Service>) -> Result<Never> {
    let socket = Arc::new(sockets::open(1, service.is_emulated())?.remove(0));
    let pool = ThreadPoolBuilder::new().num_threads(arguments.threads).build()?;
    announce(&socket)?;
    let mut buffer = [0; DATAGRAM_MAX_BYTES];
    loop {
        let Received { length, peer, ready_at } = sockets::receive(&*socket, &mut buffer).context("receiving")?;
        let mut datagram = buffer[..length].to_vec();
        let (socket, service) = (Arc::clone(&socket), Arc::clone(service));
        // First in, first out. The pool's own order, last in first out, would starve the oldest
        // request.
        pool.spawn_fifo(move || {
            if service.serve(&mut datagram, ready_at) {
                let _ = socket.send_to(&datagram, peer);
            }
        });
    }
}
