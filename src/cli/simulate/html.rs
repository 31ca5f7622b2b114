//! The results as a self-contained page with curves.

use super::json;
use super::result::Results;
use crate::sim::study::scenario::Scenario;

/// Style, text and script; the data replaces [`PLACE`].
const PAGE: &str = include_str!("page.html");
const PLACE: &str = "/*results*/null";

/// The page with the data of `results`.
pub(super) fn render(scenario: &Scenario<'_>, results: &Results) -> String {
    // Inside a script element nothing may look like its end.
    let data = json::value(scenario, results).to_string().replace('<', "\\u003c");
    PAGE.replace(PLACE, &data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_one_place_for_the_data() {
        assert_eq!(PAGE.matches(PLACE).count(), 1);
        assert!(!PAGE.contains("http://") && !PAGE.contains("https://"), "it needs nothing else");
    }
}
