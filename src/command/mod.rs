//! What the `forebay` binary does beside serving: commands that compute and print.

mod goal;
mod parallel;
pub mod plan;
pub mod simulate;
