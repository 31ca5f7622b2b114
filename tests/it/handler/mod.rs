//! What a handler is promised.

mod alone;
mod flows;
mod fork;
mod handler_api;
pub(crate) mod handlers;
mod messages;
mod mistakes;
mod panics;
mod reasons;
mod repeats;
mod sends;
mod shards;
mod tickets;
mod waits;
mod work;
