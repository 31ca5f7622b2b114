//! `forebay simulate`: the behaviour of each policy, in virtual time.

mod arguments;
pub(super) mod json;
mod sweep;
mod table;

pub(super) use arguments::SimulateArguments;
pub(super) use sweep::fleet;

use super::page;
use super::results::{Failure, one_on_stdout, open, printed, write};
use crate::lab::study::replayed::Replayed;

/// Checks `arguments` and the files that they name, without simulating.
///
/// # Errors
/// The message of [`simulate`].
#[cfg(test)]
pub(super) fn check(arguments: &SimulateArguments) -> Result<(), String> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    sweep::Sweep::of(&arguments.settled(), replayed.as_ref()).map(drop)
}

/// Simulates what `arguments` ask for, writes the files that they name and returns the part of the report for standard
/// output.
///
/// # Errors
/// A message that names the flag in question and what is allowed.
pub(super) fn simulate(arguments: &SimulateArguments) -> Result<String, Failure> {
    let replayed = arguments.replay.as_deref().map(Replayed::read).transpose()?;
    let arguments = &arguments.settled();
    let sweep = sweep::Sweep::of(arguments, replayed.as_ref())?;
    let json = open("--json", &arguments.json)?;
    let html = open("--html", &arguments.html)?;
    let outputs = [json.as_ref(), html.as_ref()];
    one_on_stdout(&outputs)?;
    let results = sweep.carry_out();
    // Of several fleets the first, as their servers are alike.
    let scenario = &sweep.scenarios[0];
    let document = || json::document(scenario, &results);
    write(&json, || format!("{:#}\n", document()))?;
    write(&html, || page::render("forebay simulate", include_str!("page.js"), &document()))?;
    Ok(printed(table::render(scenario, &results), &outputs))
}
