//! Datagrams: addresses, formats, batches, and what becomes of each.

mod bad_input;
mod datagrams;
mod fates;
mod listens;
mod slow_way;
mod trains;
mod unsent;
mod wire;
