//! A QUIC server on Forebay: `quinn-proto` in the shards of a service.
//!
//! [`ids`] finds the shard of a datagram and its connection there by the connection ID. [`service`]
//! decides which connections begin, and handles the events of a [`shard`], which keeps them. A
//! [`client`] is one connection, with its [`inbox`]. [`streams`] is the application. [`tls`] reads
//! the certificate and sets the limits of a connection.

pub mod arguments;
pub mod client;
pub mod ids;
pub mod inbox;
pub mod service;
pub mod shard;
pub mod streams;
pub mod tls;
