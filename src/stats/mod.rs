//! How far a figure of a run may be from the long-run value: intervals of quantiles, and of their ratios, for samples
//! whose values depend on one another. `README.md` beside this file argues the method and cites its sources.
//!
//! [`Batches`] takes the values of a stream in their order; a [`Sample`] of it has an [`Interval`] for each quantile,
//! given the [`Memory`] of the queue that the values come from.

#[cfg(feature = "cli")]
mod batches;
#[cfg(feature = "cli")]
mod bins;
mod interval;
#[cfg(feature = "cli")]
mod memory;
#[cfg(feature = "cli")]
mod order;
#[cfg(feature = "cli")]
mod ratio;
#[cfg(feature = "cli")]
mod sample;

#[cfg(feature = "cli")]
pub use batches::Batches;
pub use interval::{Interval, PRECISION};
#[cfg(feature = "cli")]
pub use memory::Memory;
#[cfg(feature = "cli")]
pub use ratio::{of_runs, ratio};
#[cfg(feature = "cli")]
pub use sample::Sample;

#[cfg(all(test, feature = "cli"))]
mod tests;
