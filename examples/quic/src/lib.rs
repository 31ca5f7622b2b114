//! A QUIC server on Forebay: `quinn-proto` in the shards of a service.
//!
//! [`ids`] finds the shard of a datagram and its connection there by the connection ID. [`service`]
//! decides which connections begin, and handles the events of a [`shard`], which keeps them. A
//! [`client`] is one connection, with its [`inbox`]. What is done with its streams is an
//! [`application`]: [`streams`] echoes and computes, [`requests`] brings them to a handler. With
//! [`doors`] the same handler has requests in datagrams too. [`tls`] reads the certificate and sets
//! the limits of a connection.

pub mod application;
pub mod arguments;
pub mod client;
pub mod doors;
pub mod ids;
pub mod inbox;
pub mod requests;
pub mod service;
pub mod shard;
pub mod streams;
pub mod tls;

pub use doors::main;
