//! An authoritative DNS server on Forebay that signs its answers when they are asked for.
//!
//! A question's way: [`query`] reads it, [`find`] searches its [`zone`], [`sign`] makes the
//! signatures that are not known yet. [`reply`] writes the answer, and [`answer`] calls the three.
//! [`zones`] are replaced as a whole. [`service`] is the handler of a Forebay server, and [`tcp`]
//! serves TCP beside it. [`arguments`] is the command line of both.

pub mod answer;
pub mod arguments;
pub mod cookies;
pub mod find;
pub mod keys;
pub mod name;
pub mod query;
pub mod reply;
pub mod service;
pub mod sign;
pub mod tcp;
pub mod zone;
pub mod zones;
