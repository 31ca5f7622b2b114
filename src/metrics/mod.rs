//! What is counted and measured, by whom, and how it is read.

mod fate;

pub use fate::{Fate, Refused};
