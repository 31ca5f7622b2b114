//! QUIC connections under Forebay's policies: `quinn-proto` in the shards of a service.
//!
//! An [`Application`] serves [`Connection`]s with tasks, as with quinn. [`serve`] is a whole
//! program around it. [`main`] is one around a [`forebay::Handler`], whose requests come in
//! datagrams and over streams. README.md has the rest.
//!
//! [`ids`] finds the shard of a datagram and its connection there by the connection ID. [`service`]
//! decides which connections begin, and handles the events of a [`shard`], which keeps them. A
//! [`client`] is one connection there, with its [`protocol`] and its [`inbox`], and [`connection`]
//! is what tasks see of it. [`places`] limits their number. [`echo`] is the application of the
//! program; [`by_stream`] answers each stream by a task, or by a handler, and [`doors`] has both
//! doors. [`tls`] reads the certificate and sets the limits of a connection.

pub mod application;
pub mod arguments;
pub mod by_stream;
pub mod client;
pub mod connection;
pub mod doors;
pub mod echo;
pub mod ids;
pub mod inbox;
pub mod places;
mod programs;
pub mod protocol;
pub mod service;
pub mod shard;
pub mod tls;

pub use application::{Application, Incoming, Wish};
pub use by_stream::{Streams, serve_streams};
pub use connection::{Connection, RecvStream, SendStream};
pub use doors::Doors;
pub use programs::{main, serve};
pub use quinn_proto;
pub use service::{Bounds, Quic};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
