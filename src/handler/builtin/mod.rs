//! The bench service: the protocol that `loadgen` speaks, and the handlers of `--handler`.

mod bench;
mod burn;
pub mod wire;

pub use bench::{Asked, Bench, Echo, Order, Work};
pub use burn::{Burner, Spin};
