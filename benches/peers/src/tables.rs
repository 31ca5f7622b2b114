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

/// `?` where at most half of the rounds know a figure; `known` names the figure, 1 or 0, that says so.
pub(crate) fn doubt(peer: &PeerFigures, known: &str) -> &'static str {
    if peer.median(known) == Some(1.0) { "" } else { "?" }
}

/// A multiple, to three digits or so.
pub(crate) fn times(times: f64) -> String {
    if times < 99.5 { format!("{times:.1}") } else { format!("{times:.0}") }
}

/// A whole number, its digits in groups.
pub(crate) fn grouped(number: f64) -> String {
    loadgen::text::grouped(number.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Figures;

    // Is a figure marked unless most rounds know it? Where none says so, none knows it.
    #[test]
    fn what_few_rounds_know_is_marked() {
        for (known, mark) in [(&[1.0, 0.0, 1.0][..], ""), (&[1.0, 0.0], "?"), (&[0.0, 0.0, 1.0], "?"), (&[], "?")] {
            let mut figures = Figures::default();
            figures.add("peer", "", [("p50", Some(1.0))]);
            known.iter().for_each(|known| figures.add("peer", "", [("known", Some(*known))]));
            assert_eq!(doubt(&figures.peers[0], "known"), mark, "{known:?}");
        }
    }
}
