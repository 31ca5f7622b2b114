//! What the `forebay` binary does beside serving: commands that compute and print.

mod parallel;
pub mod simulate;
