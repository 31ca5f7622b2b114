//! What a run writes.

mod export;
mod fates;
mod json;
mod merge;
mod page;
