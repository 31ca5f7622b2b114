//! Tests that offer little load, beside one another. Each module asks one question, in its first
//! line.

mod faulty;
mod golden;
mod interrupt;
mod invalid;
mod latency;
mod pair;
mod profiles;
mod proxy;
mod readme;
mod replay;
mod results;
mod retries;
mod series;
mod simulate;
mod threads;
mod usage;
