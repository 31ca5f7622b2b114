//! Tests that offer little load, beside one another. Each module asks one question, in its first
//! line.

mod golden;
mod interrupt;
mod invalid;
mod latency;
#[path = "../support/pages.rs"]
mod pages;
mod pair;
mod profiles;
mod proxy;
mod readme;
mod replay;
mod results;
mod retries;
mod series;
mod simulate;
#[path = "../support/mod.rs"]
mod support;
mod threads;
mod usage;
