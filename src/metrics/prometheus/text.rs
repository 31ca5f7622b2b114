//! Families of metrics as text: the classic format 0.0.4, or OpenMetrics 1.0.
//!
//! Both have the same samples. In OpenMetrics, a counter's family has its name without `_total`,
//! and an end mark follows.

use super::family::{Family, Sample, Value};
use std::fmt::{self, Display, Write};

/// Writes `families` as OpenMetrics if `open`, otherwise in the classic format.
pub(super) fn text(families: &[Family], open: bool) -> String {
    let mut text = String::new();
    families.iter().try_for_each(|family| write(&mut text, family, open)).expect("a string takes everything");
    text + if open { "# EOF\n" } else { "" }
}

fn write(to: &mut String, family: &Family, open: bool) -> fmt::Result {
    let kind = match family.samples.first().map(|sample| &sample.1) {
        Some(Value::Counter(_)) => "counter",
        Some(Value::Gauge(_)) => "gauge",
        Some(Value::Histogram(_)) => "histogram",
        _ if open => "unknown",
        _ => "untyped",
    };
    let name = &family.name;
    let stem = name.strip_suffix("_total").filter(|_| open && kind == "counter").unwrap_or(name);
    let help = family.help.replace('\\', r"\\").replace('\n', r"\n");
    write!(to, "# HELP {stem} {help}\n# TYPE {stem} {kind}\n")?;
    for Sample(labels, value) in &family.samples {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        match value {
            Value::Histogram(histogram) => {
                sample(to, &format!("{name}_sum"), &labels, number(histogram.sum))?;
                sample(to, &format!("{name}_count"), &labels, histogram.count)?;
                for (count, bound) in &histogram.buckets {
                    // "1.0", not "1", as OpenMetrics requires, so that series have the same name in
                    // both formats.
                    let bound = if bound.fract() == 0.0 { format!("{bound:.1}") } else { number(*bound) };
                    let labels = format!("le=\"{bound}\",{labels}");
                    sample(to, &format!("{name}_bucket"), labels.trim_end_matches(','), count)?;
                }
            }
            Value::Gauge(one) | Value::Counter(one) | Value::Untyped(one) => {
                sample(to, name, &labels, number(*one))?;
            }
        }
    }
    Ok(())
}

fn sample(to: &mut String, name: &str, labels: &str, value: impl Display) -> fmt::Result {
    match labels {
        "" => writeln!(to, "{name} {value}"),
        _ => writeln!(to, "{name}{{{labels}}} {value}"),
    }
}

fn escaped(label: &str) -> String {
    label.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

fn number(value: f64) -> String {
    if value.is_infinite() { if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned() } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::prometheus::family::{Histogram, numbers};

    /// Does each format have the names, types, numbers and escapes that its readers expect?
    #[test]
    fn each_format_has_its_own_names() {
        let mut families = Vec::new();
        numbers(&mut families, Value::Counter, "jobs_total", "Jobs, # TYPE\nin it.", "kind", [("a \"b\"\\\n", 3.0)]);
        numbers(&mut families, Value::Gauge, "room", "Room.", "", [("", f64::NEG_INFINITY)]);
        let mut waits = Family::new("wait_seconds", "Waits.");
        let buckets = vec![(0, 0.000_001), (1, 1.0), (2, f64::INFINITY)];
        waits.add(&[], Value::Histogram(Histogram { count: 2, sum: 7.5, buckets, ..Histogram::default() }));
        let mut other = Family::new("other", "Other.");
        other.add(&[("a", "1"), ("b", "2")], Value::Untyped(0.25));
        families.extend([waits, other]);
        let classic = "# HELP jobs_total Jobs, # TYPE\\nin it.\n# TYPE jobs_total counter\n\
            jobs_total{kind=\"a \\\"b\\\"\\\\\\n\"} 3\n# HELP room Room.\n# TYPE room gauge\nroom -Inf\n\
            # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\nwait_seconds_sum 7.5\nwait_seconds_count 2\n\
            wait_seconds_bucket{le=\"0.000001\"} 0\nwait_seconds_bucket{le=\"1.0\"} 1\n\
            wait_seconds_bucket{le=\"+Inf\"} 2\n# HELP other Other.\n# TYPE other untyped\nother{a=\"1\",b=\"2\"} 0.25\n";
        assert_eq!(text(&families, false), classic);
        let open = classic.replace("# HELP jobs_total", "# HELP jobs").replace("# TYPE jobs_total", "# TYPE jobs");
        assert_eq!(text(&families, true), open.replace("untyped", "unknown") + "# EOF\n");
    }
}
