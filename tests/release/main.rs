//! Tests that take long: `.ci/release` runs them, and `.ci/run` the parts that `.ci/steps` names.
//! Each module asks one question, in its first line.

mod one_place;
mod trains;
