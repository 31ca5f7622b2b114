//! A QUIC server on Forebay: `quinn-proto` in the shards of a service.
//!
//! [`ids`] finds the shard of a datagram by its connection ID. [`service`] accepts connections and
//! handles the events of a [`shard`], which keeps its connections. [`streams`] is the application.
//! [`tls`] reads the certificate and sets the limits of a connection.

pub mod arguments;
pub mod ids;
pub mod service;
pub mod shard;
pub mod streams;
pub mod tls;
