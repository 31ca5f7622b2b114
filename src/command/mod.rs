//! What the `forebay` binary does beside serving: commands that compute and print.

mod goal;
mod parallel;
pub mod plan;
pub mod simulate;

use std::path::PathBuf;

/// Writes `text` to the file that `flag` names, if it names one.
fn write(flag: &str, path: &Option<PathBuf>, text: impl Fn() -> String) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, text()).map_err(|error| format!("{flag} {} cannot be written: {error}", path.display()))
}
