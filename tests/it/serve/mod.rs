//! Which worker runs what, and when.

mod auto;
mod capture;
mod endpoint;
mod family;
mod fields;
mod groups;
mod health;
mod interval_log;
mod native;
mod page;
mod pin;
mod pools;
mod replies;
mod uninterrupted;
