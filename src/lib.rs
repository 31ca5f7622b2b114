//! Forebay: a UDP server for CPU-bound requests of very different cost.
//!
//! Modules, from the edge down; imports point down only (`tests/imports.rs` holds the table):
//!
//! - [`cli`], [`config`]: flags, environment and file become a [`config::Config`] that cannot be wrong;
//! - [`server`]: composition, life cycle, admin HTTP;
//! - [`runtime`] (threads, sleeping) and [`net`] (sockets, batches), which do not know each other;
//! - [`sched`]: the policies, pure;
//! - the parts: [`time`], [`wire`], [`packet`], [`queue`], [`handler`], [`metrics`], [`workload`].

pub mod cli;
pub mod handler;
pub mod metrics;
pub mod time;
pub mod wire;
pub mod workload;
