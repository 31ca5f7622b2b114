//! What is said of mutants.

use crate::build::Tree;
use crate::judge::Verdict;
use crate::places::{KINDS, Kind, Place};
use std::fmt::Write;
use std::ops::RangeInclusive;

/// The lines of `place`, from 1.
pub fn lines(place: &Place, tree: &Tree) -> RangeInclusive<usize> {
    let line = |byte: usize| 1 + tree[&place.file][..byte].iter().filter(|byte| **byte == b'\n').count();
    line(place.around.start)..=line(place.around.end)
}

/// The share that was caught.
pub fn caught(verdicts: &[Verdict]) -> f64 {
    verdicts.iter().filter(|verdict| verdict.is_caught()).count() as f64 / verdicts.len() as f64
}

/// A mutant with its first line before and after, and what became of it.
pub fn line(number: usize, mutant: &Place, tree: &Tree, verdict: &Verdict) -> String {
    let text = String::from_utf8_lossy(&tree[&mutant.file]);
    let (bytes, by) = &mutant.shown;
    let start = text[..bytes.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[bytes.end..].find('\n').map_or(text.len(), |newline| bytes.end + newline);
    let before = text[start..end].lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let after = format!("{}{by}{}", text[start..bytes.start].trim_start(), &text[bytes.end..end]);
    let at = 1 + text[..bytes.start].matches('\n').count();
    let kind = mutant.kind.name();
    format!("#{number} {kind} {}:{at}: {verdict:?}\n    - {before}\n    + {after}", mutant.file)
}

/// Caught of drawn by folder and kind, then every mutant that was not caught.
pub fn report(folders: &[String], mutants: &[Place], tree: &Tree, verdicts: &[Verdict]) -> String {
    let mut report = format!("{:<14}", "caught/drawn");
    for title in KINDS.map(Kind::name).into_iter().chain(["all", "unreached"]) {
        let _ = write!(report, "{title:>10}");
    }
    for (row, name) in folders.iter().map(String::as_str).chain(["all"]).enumerate() {
        let of_row: Vec<_> =
            mutants.iter().zip(verdicts).filter(|(mutant, _)| mutant.folder == row || row == folders.len()).collect();
        let _ = write!(report, "\n{name:<14}");
        for kind in KINDS.map(Some).into_iter().chain([None]) {
            let cell = of_row.iter().filter(|(mutant, _)| kind.is_none_or(|kind| mutant.kind == kind));
            let caught = cell.clone().filter(|(_, verdict)| verdict.is_caught()).count();
            let _ = write!(report, "{:>10}", format!("{caught}/{}", cell.count()));
        }
        let unreached = of_row.iter().filter(|(_, verdict)| **verdict == Verdict::Unreached).count();
        let _ = write!(report, "{unreached:>10}");
    }
    report.push('\n');
    for (number, (mutant, verdict)) in mutants.iter().zip(verdicts).enumerate() {
        if !verdict.is_caught() {
            let _ = writeln!(report, "\n{}", line(number, mutant, tree, verdict));
        }
    }
    report
}
