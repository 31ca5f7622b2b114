//! What the sources of this repository look like.

mod imports;
mod lines;
mod skips;
mod surface;
