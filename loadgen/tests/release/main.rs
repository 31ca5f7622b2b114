//! Tests that take long: cargo runs them only by name, and `.ci/steps` says when. Each module asks
//! one question, in its first line.

mod capture;
mod readme;
