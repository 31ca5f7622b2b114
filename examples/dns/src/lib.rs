//! An authoritative DNS server on Forebay that makes signatures on demand.
//!
//! The way of a question: [`query`] reads it, [`find`] searches its [`zone`], [`sign`] makes the
//! missing signatures, and [`reply`] writes the answer. [`answer`] calls the last three. A reload
//! replaces all [`zones`] at once. [`service`] is the handler of a Forebay server, and [`tcp`]
//! serves TCP beside it, [`quic`] QUIC. [`arguments`] is the command line.

pub mod answer;
pub mod arguments;
pub mod cookies;
pub mod find;
pub mod keys;
pub mod name;
pub mod query;
pub mod quic;
pub mod reply;
pub mod service;
pub mod sign;
pub mod tcp;
pub mod zone;
pub mod zones;
