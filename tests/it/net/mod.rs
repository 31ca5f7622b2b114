//! Datagrams: addresses, formats, batches, and the fate of each.

mod bad_input;
mod datagrams;
mod exact;
mod fates;
mod listens;
mod returned;
mod slow_way;
mod stops;
mod trains;
mod unsent;
mod wire;
