//! The server: composition, life cycle, admin HTTP.

pub mod admin;
