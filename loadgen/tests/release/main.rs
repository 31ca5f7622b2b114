//! Tests that take long, and have the same result while some files stay as they are: cargo runs them only by name. Each
//! module asks one question, in its first line.

#[path = "../support/alone.rs"]
mod alone;
mod capture;
#[path = "../support/pages.rs"]
mod pages;
mod readme;
#[path = "../support/server.rs"]
mod server;
