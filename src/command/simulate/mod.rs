//! `forebay simulate`: what each policy would do, in virtual time.

mod arguments;
mod run;
mod table;

pub use arguments::SimulateArguments;

use super::parallel;
use run::Run;

/// Simulates what `arguments` ask for and returns the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub fn simulate(arguments: &SimulateArguments) -> Result<String, String> {
    let runs = Run::all(arguments)?;
    let results = parallel::map(&runs, Run::carry_out);
    Ok(table::render(arguments, &results))
}
