//! Forebay: a UDP server for CPU-bound requests of very different cost.
//!
//! Modules, from the edge down; imports point down only (`tests/it/imports.rs` holds the table):
//!
//! - [`cli`], [`config`]: flags, environment and file become a [`config::Config`] that cannot be wrong;
//! - [`command`]: what the binary does beside serving;
//! - [`server`]: composition, life cycle, admin HTTP;
//! - [`handler`]: what an author writes, and [`handler::builtin`], the bench service with its protocol [`wire`];
//! - [`runtime`] (threads, sleeping, continuations) and [`net`] (sockets, batches), which do not know each other;
//! - [`sim`] (virtual time): the same policies without threads;
//! - [`sched`]: the policies, pure;
//! - [`output`]: standard output and standard error, which may be full or not read;
//! - the parts: [`packet`], [`queue`], [`metrics`], [`workload`], [`fate`], [`time`].

pub mod cli;
pub mod command;
pub mod config;
pub mod fate;
pub mod handler;
pub mod metrics;
pub mod net;
pub mod output;
pub mod packet;
pub mod queue;
pub mod runtime;
pub mod sched;
pub mod server;
pub mod sim;
pub mod time;
pub mod workload;

pub use handler::builtin::wire;
