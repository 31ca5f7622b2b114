//! Tests that keep the machine busy, and so run one at a time. Each begins with `alone()`, and
//! cargo runs no two binaries at once. Each module asks one question, in its first line.

#![allow(clippy::too_many_lines)]

#[path = "../support/alone.rs"]
mod alone;
mod calibrated;
mod charged;
mod compare;
mod conformance;
#[allow(dead_code, reason = "the tests beside one another use all of it")]
#[path = "../support/generator.rs"]
mod generator;
mod series;
#[path = "../support/server.rs"]
mod server;
mod services;
// In-process servers, and clients for them.
#[path = "../../../tests/support/mod.rs"]
mod support;

use support::script;
