//! Tests that take long and always give the same result: `.ci/release` runs them, and `.ci/run` where the files of
//! `.ci/steps` have changed. Each module asks one question, in its first line.

mod capacity;
mod fleets;
mod loads;
mod one_place;
mod plan;
mod sim;
#[path = "../support/mod.rs"]
mod support;
mod theory;
mod trains;
