//! Tests that take long: `.ci/release` runs them, and `.ci/run` the parts that `.ci/steps` names. Each module asks one
//! question, in its first line.

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
