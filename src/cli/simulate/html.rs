//! The results as a self-contained page with curves by load.

use super::json;
use super::result::Results;
use crate::cli::page;
use crate::lab::study::scenario::Scenario;

/// The page with the data of `results`.
pub(super) fn render(scenario: &Scenario<'_>, results: &Results) -> String {
    page::render("forebay simulate", include_str!("page.js"), &json::value(scenario, results))
}
