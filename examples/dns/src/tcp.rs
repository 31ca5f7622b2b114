//! DNS over TCP (RFC 7766). A message follows its length. A connection may have several messages,
//! which are answered in their order.
//!
//! One thread reads and writes all connections, of all addresses. The server's workers make the
//! answers and their signatures.

use crate::query::Rcode;
use crate::service::{Service, stream_error};
use forebay::server::{SpawnError, Spawner};
use forebay::time::Nanos;
use socket2::{Domain, Socket, Type};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long a connection may stay without a whole message, or without reading an answer: some
/// seconds, as in RFC 7766, 6.2.3.
pub(crate) const IDLE: Nanos = Nanos::from_secs(10);

/// The same time if more than half of the connections are in use, because other clients want one.
const IDLE_WHEN_BUSY: Nanos = Nanos::from_secs(1);

/// Connections that may wait in the kernel, at each address.
const BACKLOG: i32 = 128;

/// A thread that serves connections until it is dropped.
#[derive(Debug)]
pub struct TcpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TcpServer {
    /// Listens at `addresses`, and serves up to `connections` at once, counted over all addresses;
    /// more wait in the kernel. `spawner` runs the work of answers on the workers.
    ///
    /// # Errors
    /// If an address cannot be bound, which the error names, or if no thread can be started.
    pub fn start(
        service: Arc<Service>,
        spawner: Spawner,
        addresses: &[SocketAddr],
        connections: usize,
    ) -> io::Result<TcpServer> {
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inside = runtime.enter();
        let named =
            |address: &SocketAddr, error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
        let listen = |address| listener(address, addresses).map_err(|error| named(address, error));
        let listeners = addresses.iter().map(listen).collect::<io::Result<Vec<_>>>()?;
        drop(inside);
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(Answers { service, spawner }, &listeners, connections) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("dns-tcp".to_owned()).spawn(serve)?;
        Ok(TcpServer { stop: Some(stop), thread: Some(thread) })
    }
}

/// Listens at `address`, one of `addresses`. The IPv6 wildcard also takes IPv4, unless `addresses`
/// has an IPv4 address with the same port. Forebay's sockets do the same.
fn listener(address: &SocketAddr, addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(addresses.iter().any(|other| other.is_ipv4() && other.port() == address.port()))?;
    }
    // Connections of a former server may still be open on this port.
    socket.set_reuse_address(true)?;
    socket.bind(&(*address).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket.into())
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(JoinHandle::join);
    }
}

/// Makes the answers.
#[derive(Clone)]
struct Answers {
    service: Arc<Service>,
    spawner: Spawner,
}

impl Answers {
    /// The answer to `message`; `None` if it gets none, or if the server stops.
    async fn of(&self, message: Vec<u8>, client: IpAddr) -> Option<Vec<u8>> {
        let (service, message) = (Arc::clone(&self.service), Arc::new(message));
        let of = Arc::clone(&message);
        let found = match self.spawner.spawn(async move { service.answer_stream(&of, client).await }) {
            Ok(spawned) => spawned.await.ok(),
            Err(SpawnError::Stopping(_)) => return None,
            Err(_) => None,
        };
        found.unwrap_or_else(|| stream_error(&message, Rcode::ServFail))
    }
}

async fn accept(answers: Answers, listeners: &[TcpListener], connections: usize) {
    let free = Arc::new(Semaphore::new(connections));
    for turn in 0.. {
        // One permit for all addresses. If each address waited with its own permit, others could
        // not use that permit.
        let permit = Arc::clone(&free).acquire_owned().await.expect("it is never closed");
        match next(listeners, turn).await {
            Ok((stream, peer)) => {
                let (answers, free) = (answers.clone(), Arc::clone(&free));
                tokio::spawn(async move {
                    let idle = || if free.available_permits() < connections / 2 { IDLE_WHEN_BUSY } else { IDLE };
                    // If a client goes away or sends nothing, that is not worth a log line.
                    let _ = serve(&answers, stream, peer, idle).await;
                    drop(permit);
                });
            }
            // Most of these errors concern one connection. If no descriptors are left, other
            // connections must end first.
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Nanos::from_millis(10).into()).await;
            }
        }
    }
}

/// The next connection. The listeners take turns at being asked first, so that none blocks the
/// others.
async fn next(listeners: &[TcpListener], turn: usize) -> io::Result<(TcpStream, SocketAddr)> {
    let (later, first) = listeners.split_at(turn % listeners.len());
    poll_fn(|context| {
        let mut asked = first.iter().chain(later).map(|listener| listener.poll_accept(context));
        asked.find(Poll::is_ready).unwrap_or(Poll::Pending)
    })
    .await
}

async fn serve(answers: &Answers, mut stream: TcpStream, peer: SocketAddr, idle: impl Fn() -> Nanos) -> io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let message = timeout(idle().into(), read(&mut stream)).await??;
        let Some(answer) = answers.of(message, peer.ip()).await else { return Ok(()) };
        let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
        timeout(idle().into(), stream.write_all(&framed)).await??;
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut message = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

#[cfg(test)]
mod tests;
