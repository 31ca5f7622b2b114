//! How far a figure of a run may be from the long-run value. This module gives intervals of quantiles, and of their ratios,
//! for samples whose values depend on one another. `README.md` beside this file argues the method and cites its sources.
//!
//! [`Batches`] takes the values of a stream in their order. A [`Sample`] of it has an [`Interval`] for each quantile, given
//! the [`Memory`] of the queue that the values come from.

mod batches;
mod bins;
mod memory;
mod order;
mod ratio;
mod sample;

pub use crate::metrics::Interval;
pub use batches::Batches;
pub use memory::Memory;
pub use ratio::{of_runs, ratio};
pub use sample::Sample;

/// The widest interval, upper over lower end, whose figure counts as known unless a user says otherwise.
pub const PRECISION: f64 = 2.0;

#[cfg(test)]
mod tests;
