//! A datagram's way through a worker. In the order in which it passes them:
//!
//! 1. `runtime/worker.rs`: the thread's loop lets the worker take one step after the other
//! 2. `sched/turn/mod.rs`: the worker as a state machine
//! 3. `sched/turn/search.rs`: looks for work, here in the worker's own socket
//! 4. `sched/policy/search.rs`: walks through the places that the policy orders
//! 5. `sched/policy/mod.rs`: which places, and where an arrival goes
//! 6. `server/path/receive.rs`: receives a batch into packets
//! 7. `net/link.rs`: the kernel's sockets, or memory in tests
//! 8. `net/receive/batches.rs`, or another way: `recvmmsg`
//! 9. `server/path/packet.rs`: the memory that the request lives in
//! 10. `server/path/admit/mod.rs`: checks it, or ends it as malformed, refused or shed
//! 11. `net/filter.rs`: sources and destinations that are never answered
//! 12. `runtime/world.rs`: puts it into the worker's deque or a pool's queue, and takes it out again
//! 13. `sched/turn/run.rs`: runs it, and asks `sched/policy/running.rs` what becomes of it at a checkpoint
//! 14. `server/path/execute.rs`: polls the handler, and ends the request
//! 15. `server/path/slot.rs`: the handler's future
//! 16. `runtime/continuation/poll.rs`: the one way to poll
//! 17. `handler/mod.rs`: the handler's interface
//! 18. `server/path/reply/mod.rs`: gathers replies and sends them
//! 19. `net/send/mod.rs`: hands them to the kernel
//! 20. `metrics/worker_metrics.rs`: counts and times it
//!
//! Beside this path: `common.rs` is what the workers share; `end.rs` ends requests that are not served, and `shed.rs`
//! what has waited for too long, by what `limits.rs` holds; `wait_slots.rs` holds requests that wait, and `flows.rs` those
//! whose flow is busy; `gathering.rs` says whether replies may wait for others, by what `thread_use.rs` reads; `credit.rs`
//! bounds what sources are sent that may be forged; `charge.rs` lets emulated cores pay for what they pass.

pub(crate) mod admit;
mod between;
mod charge;
pub(crate) mod common;
mod end;
pub(crate) mod execute;
pub(crate) mod flows;
pub(crate) mod packet;
pub(crate) mod receive;
pub(crate) mod reply;
mod run;
pub(crate) mod slot;
pub(crate) mod transport;
pub(crate) mod wait_slots;
