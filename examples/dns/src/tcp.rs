//! DNS over TCP (RFC 7766): messages after their lengths, several on one connection, answered in their order.
//!
//! One thread serves all connections, beside the workers, and makes signatures itself: TCP is for what UDP has no room for.

use crate::service::Service;
use forebay::time::Nanos;
use std::io;
use std::net::{SocketAddr, TcpListener};
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
    /// Listens at `address`, and serves up to `connections` at once; more wait in the kernel.
    ///
    /// # Errors
    /// The address cannot be bound, or there can be no thread.
    pub fn start(service: Arc<Service>, address: SocketAddr, connections: usize) -> io::Result<TcpServer> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                tokio::select! {
                    ended = accept(service, listener, connections) => tracing::error!(?ended, "TCP is no longer served"),
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

async fn accept(service: Arc<Service>, listener: TcpListener, connections: usize) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let free = Arc::new(Semaphore::new(connections));
    loop {
        let permit = Arc::clone(&free).acquire_owned().await.expect("it is never closed");
        match listener.accept().await {
            Ok((stream, peer)) => {
                let (service, free) = (Arc::clone(&service), Arc::clone(&free));
                tokio::spawn(async move {
                    let idle = || if free.available_permits() < connections / 2 { IDLE_WHEN_BUSY } else { IDLE };
                    // A client that goes away, or sends nothing, is no news.
                    let _ = serve(&service, stream, peer, idle).await;
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

async fn serve(service: &Service, mut stream: TcpStream, peer: SocketAddr, idle: impl Fn() -> Nanos) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut message = Vec::new();
    loop {
        timeout(idle().into(), read(&mut stream, &mut message)).await??;
        let Some(answer) = service.answer_stream(&message, peer.ip()) else { return Ok(()) };
        let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
        timeout(idle().into(), stream.write_all(&framed)).await??;
    }
}

async fn read(stream: &mut TcpStream, message: &mut Vec<u8>) -> io::Result<()> {
    let length = stream.read_u16().await?;
    message.resize(usize::from(length), 0);
    stream.read_exact(message).await.map(drop)
}
