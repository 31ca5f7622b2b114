//! Cells, rows and lines of a table in Markdown.

use crate::figures::PeerFigures;
use std::fmt::Write;

/// Adds a line.
pub(crate) fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Adds a row: the peer, then its cells.
pub(crate) fn row(text: &mut String, peer: &str, cells: &[String]) {
    let _ = writeln!(text, "| {peer} | {} |", cells.join(" | "));
}

/// The median of a figure; `-` where there is none.
pub(crate) fn value(peer: &PeerFigures, name: &str, show: impl Fn(f64) -> String) -> String {
    peer.median(name).map_or_else(|| "-".to_owned(), show)
}

/// The median of a figure, and the smallest and largest in parentheses.
pub(crate) fn with_spread(peer: &PeerFigures, name: &str, show: impl Fn(f64) -> String) -> String {
    let spread = peer.spread(name).map(|(smallest, largest)| format!(" ({}..{})", show(smallest), show(largest)));
    value(peer, name, show) + &spread.unwrap_or_default()
}

/// The median of the ratios within a round to `other`.
pub(crate) fn ratio(peer: &PeerFigures, other: &PeerFigures, name: &str) -> String {
    peer.ratio(other, name).map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"))
}

/// The median of the ratios within a round to `best`; `-` without one.
pub(crate) fn to_best(peer: &PeerFigures, best: Option<&PeerFigures>, name: &str) -> String {
    best.map_or_else(|| "-".to_owned(), |best| ratio(peer, best, name))
}

/// A multiple, to three digits or so.
pub(crate) fn times(times: f64) -> String {
    if times < 99.5 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// A whole number, its digits in groups.
pub(crate) fn grouped(number: f64) -> String {
    loadgen::text::grouped(number.round() as u64)
}
