//! Which worker runs what, and when.

mod auto;
mod endpoint;
mod golden;
mod groups;
mod looks;
mod pin;
mod pools;
mod replies;
mod uninterrupted;
