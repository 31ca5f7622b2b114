//! [`Running`]: a server on a thread of its own.

use super::error::ServeError;
use super::life::report::Report;
use super::life::stop::StopHandle;
use super::serve::Server;
use crate::handler::Service;
use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

/// A server on a thread of its own. Dropping it stops the server, and waits for its end.
///
/// ```
/// use forebay::{Reply, Request, Server, handler_fn};
/// use std::net::UdpSocket;
///
/// let echo = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| reply.put(request.bytes()).unwrap());
/// let server = Server::for_tests(echo);
/// let client = UdpSocket::bind("127.0.0.1:0")?;
/// client.send_to(b"anyone there?", server.address)?;
/// assert_eq!(client.recv(&mut [0; 64])?, 13);
/// assert_eq!(server.stop()?.totals.fates.answered, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it stops the server"]
pub struct Running {
    /// The first address where requests arrive.
    pub address: SocketAddr,
    stop: StopHandle,
    thread: Option<JoinHandle<Result<Report, ServeError>>>,
}

impl Server {
    /// Serves as [`Server::run`] does, on a new thread.
    pub fn start(self, handler: impl Service + Send + 'static) -> Running {
        let (address, stop) = (self.udp_address(), self.stop_handle());
        Running { address, stop, thread: Some(thread::spawn(move || self.run(&handler))) }
    }

    /// A server for a test: two workers, a free port of 127.0.0.1, no admin endpoint.
    ///
    /// # Panics
    /// If the server cannot be bound.
    pub fn for_tests(handler: impl Service + Send + 'static) -> Running {
        let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(2);
        server.bind().expect("a free port").start(handler)
    }
}

impl Running {
    /// Stops the server as [`StopHandle::stop`] does, and waits for its end.
    ///
    /// # Errors
    /// As [`Server::run`].
    ///
    /// # Panics
    /// If the server panicked.
    pub fn stop(mut self) -> Result<Report, ServeError> {
        self.stop.stop();
        self.thread.take().expect("it is joined once").join().expect("the server does not panic")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.stop();
            let _ = thread.join();
        }
    }
}
