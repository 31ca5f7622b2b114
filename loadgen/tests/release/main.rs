//! Tests that take long: cargo runs them only by name, and `.ci/steps` says when. Each module asks
//! one question, in its first line.

#[path = "../support/alone.rs"]
mod alone;
mod capture;
#[path = "../support/pages.rs"]
mod pages;
mod readme;
#[path = "../support/server.rs"]
mod server;
