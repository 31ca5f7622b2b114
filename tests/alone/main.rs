//! Tests that measure time, CPU, memory or drops, and so run one at a time. Each begins with
//! `alone()`, and cargo runs no two binaries at once. Each module asks one question, in its first
//! line.

mod endpoint;
mod life;
mod load;
mod net;
#[path = "../support/mod.rs"]
mod support;
