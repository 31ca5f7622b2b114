//! Tests of virtual time that take long: cargo runs them only by name, and `.ci/steps` says when.
//! Each module asks one question, in its first line.

mod capacity;
mod loads;
mod plan;
#[allow(dead_code, reason = "the tests beside one another use all of it")]
#[path = "../../../tests/support/program.rs"]
mod program;
mod sim;
mod theory;
