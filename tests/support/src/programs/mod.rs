//! The programs under test, as processes of their own: how they are found, started, driven and
//! ended.

pub mod generator;
pub mod place;
pub mod process;
pub mod program;
