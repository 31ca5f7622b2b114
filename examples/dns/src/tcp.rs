//! DNS over TCP (RFC 7766): messages after their lengths, several on one connection, answered in their order.
//!
//! One thread reads and writes all connections. Answers, and the signatures in them, are made by the server's workers.

use crate::query::Rcode;
use crate::service::{Service, stream_error};
use forebay::server::{SpawnError, Spawner};
use forebay::time::Nanos;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;

/// How long a connection may be without a whole message, or not take an answer: as RFC 7766, 6.2.3 has it, some seconds.
const IDLE: Nanos = Nanos::from_secs(10);

/// The same while more than half of the connections are in use: others want one, too.
const IDLE_WHEN_BUSY: Nanos = Nanos::from_secs(1);

/// A thread that serves connections until it is dropped.
#[derive(Debug)]
pub struct TcpServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
}

impl TcpServer {
    /// Listens at `address`, and serves up to `connections` at once; more wait in the kernel. Answers are made where
    /// `spawner` puts them.
    ///
    /// # Errors
    /// The address cannot be bound, or there can be no thread.
    pub fn start(
        service: Arc<Service>,
        spawner: Spawner,
        address: SocketAddr,
        connections: usize,
    ) -> io::Result<TcpServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = accept(Answers { service, spawner }, listener, connections) => tracing::error!(?ended, "TCP is no longer served"),
                    _ = stopped => {}
                }
            });
        };
        let thread = thread::Builder::new().name("dns-tcp".to_owned()).spawn(serve)?;
        Ok(TcpServer { stop: Some(stop), thread: Some(thread), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for TcpServer {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        self.thread.take().map(JoinHandle::join);
    }
}

/// Where answers come from.
#[derive(Clone)]
struct Answers {
    service: Arc<Service>,
    spawner: Spawner,
}

impl Answers {
    /// The answer to `message`; `None` if there is none, or will be none as the server stops.
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

async fn accept(answers: Answers, listener: TcpListener, connections: usize) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let free = Arc::new(Semaphore::new(connections));
    loop {
        let permit = Arc::clone(&free).acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (answers, free) = (answers.clone(), Arc::clone(&free));
                tokio::spawn(async move {
                    let idle = || if free.available_permits() < connections / 2 { IDLE_WHEN_BUSY } else { IDLE };
                    // A client that goes away, or sends nothing, is no news.
                    let _ = serve(&answers, stream, peer, idle).await;
                    drop(permit);
                });
            }
            // Most of these are of one connection; where there are no descriptors left, others must end first.
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(Nanos::from_millis(10).into()).await;
            }
        }
    }
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
