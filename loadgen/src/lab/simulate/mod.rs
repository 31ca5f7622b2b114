//! `loadgen simulate`: the behaviour of each policy, in virtual time.

mod arguments;
pub(crate) mod json;
mod sweep;
mod table;

pub(crate) use arguments::SimulateArguments;
pub(crate) use sweep::fleet;

use crate::failure::Failure;
use crate::lab::study::replayed::Replayed;
use crate::page;
use crate::results::Outputs;

/// Checks `arguments` and the files that they name, without simulating.
///
/// # Errors
/// The message of [`simulate`].
#[cfg(test)]
pub(crate) fn check(arguments: &SimulateArguments) -> Result<(), String> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    sweep::scenarios(&arguments.settled(), replayed.as_ref()).map(drop)
}

/// Simulates what `arguments` ask for, and writes the report.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<(), Failure> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    let arguments = &arguments.settled();
    let mut scenarios = sweep::scenarios(arguments, replayed.as_ref())?;
    let outputs = Outputs::open(arguments.json.as_deref(), arguments.html.as_deref())?;
    let results = sweep::carry_out(&mut scenarios, arguments);
    // Of several fleets the first, as their servers are alike.
    let scenario = &scenarios[0];
    let document = || json::document(scenario, &results);
    let page = || page::render("loadgen simulate", include_str!("page.js"), &document());
    outputs.finish(&table::render(scenario, &results), document, page)
}
