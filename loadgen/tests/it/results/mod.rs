//! What a run writes.

mod at_most;
mod export;
mod fates;
mod json;
mod merge;
mod page;
