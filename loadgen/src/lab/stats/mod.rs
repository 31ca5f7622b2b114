//! How far a figure of a run may be from the long-run value. This module computes intervals of
//! quantiles for samples whose values depend on one another, and of ratios of runs. `README.md`
//! argues the method and cites its sources.
//!
//! [`Batches`] takes the values of a stream in their order. A [`Sample`] of it has an [`Interval`]
//! for each quantile, given the [`Memory`] of the queue from which the values come.

mod batches;
mod bins;
mod block;
mod memory;
mod order;
mod sample;

pub use batches::Batches;
pub use block::{Block, Bounds, Interval, PRECISION};
pub use memory::Memory;
pub use sample::{Sample, of_runs};

#[cfg(test)]
mod tests;
