//! Rules for the sources of this repository.

mod imports;
mod interface;
mod skips;
mod surface;
