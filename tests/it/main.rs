//! Tests that run beside one another: none measures time, CPU or memory. Each module asks one question, in its first line.

mod addresses;
mod auto;
mod bad_input;
mod config;
mod custom_handler;
mod datagrams;
mod embedded;
mod examples;
mod flows;
mod golden;
mod handler_api;
mod handlers;
mod imports;
mod listens;
mod looks;
mod output;
mod pin;
mod reasons;
mod replies;
mod simulate;
mod skips;
mod slow_way;
mod spawner;
#[path = "../support/mod.rs"]
mod support;
mod surface;
mod tasks_graph;
mod tasks_join;
mod tasks_order;
mod tasks_shutdown;
mod tasks_spawn;
mod trains;
mod uninterrupted;
mod unsent;
mod waits;
mod wire;
