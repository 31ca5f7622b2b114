//! The runtime as a library.

mod graph;
mod join;
mod order;
mod shutdown;
mod spawn;
