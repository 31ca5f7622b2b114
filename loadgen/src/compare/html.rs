//! A comparison as a self-contained page: slowdown by percentile, with intervals.

use crate::compare::CompareReport;
use crate::compare::text::{invalid, told_classes, unwrapped};
use crate::compare::verdict::Verdict;
use forebay::cli::page;
use serde_json::json;

fn names<T>(classes: &[(&'static str, T)]) -> Vec<&'static str> {
    classes.iter().map(|(name, _)| *name).collect()
}

/// The page; `about` says what was compared.
pub(crate) fn render(report: &CompareReport, about: &str) -> String {
    let title = "loadgen compare";
    let mut findings: Vec<String> = report.verdicts.iter().map(Verdict::said).collect();
    findings.extend(Some(unwrapped(&invalid(report))).filter(|text| !text.is_empty()));
    let data = json!({
        "title": report.runs.first().map_or("", |run| &run.report.workload),
        "about": unwrapped(about),
        "findings": findings,
        "classes": report.arms.first().map_or_else(Vec::new, |arm| names(told_classes(&arm.slowdown.0))),
        "arms": report.arms,
        "virtual_time": report.virtual_time,
    });
    page::render(title, include_str!("page.js"), &data)
}
