//! Rules for the sources of this repository.

mod imports;
mod skips;
mod surface;
