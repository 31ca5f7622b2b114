//! What the sources of this repository look like.

mod imports;
mod skips;
mod surface;
