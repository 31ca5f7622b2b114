//! Rules for the sources of this repository.

mod imports;
mod interface;
mod names;
mod skips;
mod surface;
