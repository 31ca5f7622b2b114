//! What a run came to: figures, whether they may be trusted, and both as JSON and for people.

pub mod by_class;
pub mod json;
pub mod run_result;
pub(crate) mod text;
pub mod validity;
