//! Tests that run in parallel. None of them measures time, CPU or memory. Each module asks one
//! question, in its first line.

#![allow(clippy::too_many_lines)]

mod deploy;
mod handler;
mod life;
mod net;
mod program;
mod serve;
mod sources;
