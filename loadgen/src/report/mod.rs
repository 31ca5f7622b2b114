//! The result of a run: figures, whether they may be trusted, and both as JSON and as text.

pub mod by_class;
pub(crate) mod export;
pub mod histogram;
pub mod json;
pub(crate) mod parts;
pub mod run_result;
pub(crate) mod seen;
pub(crate) mod slo;
pub(crate) mod text;
pub mod validity;
pub(crate) mod warmup;
