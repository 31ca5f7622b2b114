//! The bench service: the protocol that `loadgen` speaks, and the handlers of `--handler`.

mod bench;
mod burn;
mod forking;
pub mod wire;

pub use bench::{Asked, Bench, BenchWork, Echo, Order};
pub use burn::{Burner, Spin};
pub use forking::Forking;
