//! Tests that measure time, CPU, memory or drops, and so run one at a time: each begins with `alone()`, and cargo runs no
//! two binaries at once. Each module asks one question, in its first line.

mod charged;
mod conformance;
mod endpoint;
mod exact;
mod fates;
mod fork;
mod handover;
mod idle;
mod memory;
mod overload;
mod policies;
mod reload;
mod slow_way;
mod steal;
#[path = "../support/mod.rs"]
mod support;
mod upstream;
