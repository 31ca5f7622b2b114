//! The bench service: the protocol that `loadgen` speaks, and what `--handler` names.

mod bench;
mod burn;
#[cfg(feature = "cli")]
mod digest;
mod forking;
pub mod wire;

pub use bench::{Asked, Bench, Echo, Order, Work};
pub use burn::{Burner, Spin};
#[cfg(feature = "cli")]
pub use digest::Digest;
pub use forking::Forking;
