//! Tests that keep the machine busy, and so run one at a time. Each begins with `alone()`, and
//! cargo runs no two binaries at once. Each module asks one question, in its first line.

#![allow(clippy::too_many_lines)]

#[path = "../support/alone.rs"]
mod alone;
mod calibrated;
mod compare;
#[allow(dead_code, reason = "the tests beside one another use all of it")]
#[path = "../support/generator.rs"]
mod generator;
#[path = "../../../tests/support/script/mod.rs"]
mod script;
#[path = "../support/server.rs"]
mod server;
#[allow(dead_code, reason = "the server's tests use all of it")]
#[path = "../../../tests/support/skip.rs"]
mod skip;
