//! The server: binds sockets, runs workers, serves admin HTTP, and stops.
//!
//! A [`Server`] is bound, then runs on the calling thread until it is told to stop, and returns a
//! [`Report`]:
//!
//! ```
//! use forebay::{Reply, Request, Server, handler_fn};
//! use forebay::server::Ended;
//! use std::net::UdpSocket;
//!
//! let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(2).bind()?;
//! let (address, stop) = (server.udp_address(), server.stop_handle());
//! let thread = std::thread::spawn(move || {
//!     server.run(&handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
//!         reply.put(request.bytes()).expect("it is as long as the request");
//!     }))
//! });
//! let client = UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"anyone there?", address)?;
//! assert_eq!(client.recv(&mut [0; 64])?, 13);
//!
//! stop.stop();
//! let report = thread.join().expect("no panic")?;
//! assert_eq!((report.ended, report.totals.fates.answered), (Ended::Drained, 1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod admin;
#[cfg(feature = "cli")]
mod bench;
mod board;
mod builder;
mod cores;
pub(crate) mod emulated;
mod error;
#[cfg(all(test, feature = "cli"))]
mod explore;
#[cfg(test)]
#[path = "../../tests/support/golden.rs"]
mod golden;
mod handover;
mod life;
mod listening;
mod notices;
pub(crate) mod path;
mod reload;
mod sender;
mod serve;
mod shown;
mod sizes;
mod spawner;

pub use admin::Metrics;
#[cfg(feature = "cli")]
pub(crate) use bench::run_bench;
pub use builder::Builder;
pub use error::{HandOverError, ServeError};
pub use life::report::{Ended, Report};
pub use life::stop::StopHandle;
pub use sender::Sender;
pub use serve::Server;
pub use sizes::Memory;
pub use spawner::{SpawnError, Spawned, Spawner, Unfinished};

#[cfg(all(test, feature = "cli"))]
#[path = "serve/tests.rs"]
mod tests;
