//! Does the row that CONTRIBUTING.md shows compile, and does it put jobs where workers look?
//! `tests/release/one_place.rs` checks the rest of that page.

use super::*;

const SHOWN: &[Entry] = &[Entry {
    name: "turns",
    literature: Some("round robin"),
    help: "requests take turns of a slice",
    not_for: "light tails: all requests end late",
    shares_sockets: true,
    settings: &["slice"],
    constructor: |tuning| {
        let limit = Limit::Stay { slice: tuning.budget, then: Then::Turn };
        Made::plain(Policy { limit, ..global(tuning) })
    },
    ..Entry::PLAIN
}];

#[test]
fn contributing_shows_a_row_of_today() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../CONTRIBUTING.md")).expect("a page");
    let row = page.split_once("\n```rust\n").and_then(|(_, after)| after.split_once(",\n```\n")).expect("a row").0;
    // Except for the indentation.
    let [row, here] = [row, include_str!("tests.rs")].map(|text| text.split_whitespace().collect::<String>());
    assert!(here.contains(&format!("=&[{row}];")), "CONTRIBUTING.md and {} differ: {row}", file!());
    let slice = Nanos::from_micros(50);
    let made = SHOWN[0].make(&Tuning::new(4, slice));
    assert_eq!(made.name.name(), "turns");
    assert_eq!(made.policy.limit, Limit::Stay { slice, then: Then::Turn });
}
