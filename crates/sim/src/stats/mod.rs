//! Confidence intervals: how far a figure of a run may be from the long-run value. This module has
//! intervals of quantiles for samples whose values depend on one another, and of ratios of runs.
//! `README.md` explains the method and cites its sources.
//!
//! [`Batches`] takes the values of a stream in their order and gives a [`Sample`]. A sample has an
//! [`Interval`] for each quantile. It also depends on the [`Memory`] of the queue from which the
//! values come.

mod batches;
mod bins;
mod block;
#[cfg(feature = "json")]
mod json;
mod memory;
mod order;
mod sample;

pub use batches::Batches;
pub use block::{Block, Bounds, Interval, PRECISION};
pub use memory::Memory;
pub use sample::{Sample, of_runs};

#[cfg(test)]
mod tests;
