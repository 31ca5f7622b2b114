//! The bench service: the protocol that `loadgen` speaks, and what `--handler` names.

mod bench;
mod burn;
mod digest;
mod echo;
mod forking;
mod spin;
pub mod wire;

pub use bench::{Bench, Order, Work};
pub use burn::{Burner, emulated};
pub use digest::Digest;
pub use echo::Echo;
pub use forking::Forking;
pub use spin::Spin;
