#![doc = include_str!(concat!(env!("OUT_DIR"), "/front.md"))]
//!
//! # Code map
//!
//! Modules are listed from the top layer down. Each imports only modules below it.
//! `tests/it/sources/imports.rs` checks this. Modules without a link are private.
//!
//! - `cli`: `main` turns a handler into a command-line program, such as `forebay serve`;
//! - `config`: turns flags, environment and file into a checked `Config`;
//! - [`server`]: start, stop and admin HTTP; `server/path` takes a datagram through a worker;
//! - `shards`: the state, the turns, the timers and the messages of services;
//! - [`handler`]: the interface that a service implements, and the bench service
//!   (`handler::builtin`) with its protocol (`wire`);
//! - `output`: writes to standard output and standard error, whose pipes may be full or unread;
//! - the lowest: `emulation`, cores that sleep instead of working.
//!
//! Below these are crates, which know nothing of this one:
//!
//! - `forebay-sim`: a server in virtual time, workloads and intervals, for tests and `loadgen`;
//! - `forebay-tasks`: what [`tasks`] shows, the runtime for tasks instead of datagrams;
//! - `forebay-runtime`: threads, queues, sleep, and what a handler may await;
//! - `forebay-udp`: sockets and batches;
//! - `forebay-metrics`: what [`metrics`] shows, and its pages;
//! - `forebay-sched`: the policies, and the worker as a state machine without input and output;
//! - `forebay-clock`: the clocks; `forebay-base`: what [`fate`] and [`time`] show, and the costs of
//!   steps.
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | admission | the checks between a datagram's arrival and its first run: address, protocol, cost cap |
//! | backlog | jobs that wait in a deque, a queue or a socket |
//! | balancer | assigns each request of a fleet to one of its servers |
//! | batch | datagrams received, or replies sent, by one system call |
//! | checkpoint | a point in a handler where the policy may take the worker back: preemption is cooperative |
//! | child | a part of a request that runs as a job of its own, after a fork |
//! | class | the kind of a request, 0 to 7: 0 is short, 1 is long |
//! | continuation | a request that has run and is not finished: after a yield, a hop or a join |
//! | fate | how a datagram ended; each has exactly one |
//! | fleet | equal servers behind a balancer |
//! | flow | requests with one key, served one at a time; of datagrams: those from one address and port to another |
//! | gate | a kernel filter that drops datagrams before they enter a socket: some under overload, all at a stop |
//! | goodput | requests answered in time, per second |
//! | group | workers of a large server with queues, sleepers and a watch set of their own |
//! | hop | a handler's move to another pool |
//! | ingress | the socket, or the part of a socket's flows, that one worker receives from |
//! | job | what a worker runs: a fresh request, a continuation or a child |
//! | level | a range of CPU time already used; requests of lower levels go first |
//! | light, heavy | a request that has used less, or more, CPU time than the policy's limit, such as a slice |
//! | look | a poll of the watch set by a worker, also at a checkpoint of a running job |
//! | notice | a bit that the kernel raises for a running job when a datagram arrives |
//! | packet | the memory of one request and its reply |
//! | policy | the rules by which workers choose what to run, as data |
//! | pool | workers that share a queue |
//! | quantum, slice | CPU time after which a policy may take the worker back from a request |
//! | shard | of a queue: one of several bounded queues that act as one; of a service: a part of its state, used by one request at a time |
//! | shed | end a well-formed request unserved, because of load |
//! | slip | how late the load generator sent a request |
//! | slowdown | latency divided by service time |
//! | standing queue | a queue that only requests older than a target have left for some time, as in CoDel; the server sheds its requests sooner |
//! | steal | take jobs from another worker, the victim; the taker is the thief |
//! | trace | the requests of a run with their times, for replay |
//! | turn | one round of a worker: search, run, place what became ready, or rest |
//! | validated | of a source: the handler or `--trusted-networks` vouches that its address is not forged |
//! | wait slot | the place of a request while it waits for its children |
//! | watch set, watcher | the sockets of busy workers; the one sleeping worker that the kernel wakes when a datagram arrives there |
//! | yield | give the worker back at a checkpoint, and wait in a queue |

// A test may be longer than a screen.
#![cfg_attr(test, allow(clippy::too_many_lines))]

#[cfg_attr(doc, doc(hidden))]
pub mod config;
#[cfg_attr(doc, doc(hidden))]
pub mod emulation;
pub mod fate;
pub mod handler;
pub mod metrics;
#[cfg_attr(doc, doc(hidden))]
pub mod output;
pub mod server;
mod shards;
pub mod tasks;
pub mod time;

#[cfg(feature = "cli")]
mod cli;
// Hidden in the documentation only: `missing_docs` treats a module that is always hidden as public.
#[cfg_attr(doc, doc(hidden))]
pub mod inside;

use inside::{net, runtime, sched};

/// The `clap` crate that parses the flags of [`main`]. Use it as `use forebay::clap`, and the
/// versions always match.
#[cfg(feature = "cli")]
pub use clap;
#[cfg(feature = "cli")]
pub use cli::main;
pub use handler::{Admitted, Arrival, Event, Handler, Out, Rejected, Reply, Request, Service};
pub use handler::{checkpoint, fork, handler_fn, hop};
pub use server::{Builder, Server};
