//! Tests that keep the machine busy, and so run one at a time. Each begins with `alone()`, and
//! cargo runs no two binaries at once. Each module asks one question, in its first line.

#![allow(clippy::too_many_lines)]

mod calibrated;
mod charged;
mod compare;
mod conformance;
mod series;
mod services;
