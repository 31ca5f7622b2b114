//! Families of metrics as text, in the classic format 0.0.4.

use super::family::{Family, FamilySample, Value};
use std::fmt::{self, Display, Write};

pub(super) fn text(families: &[Family]) -> String {
    let mut text = String::new();
    families.iter().try_for_each(|family| write(&mut text, family)).expect("a string takes everything");
    text
}

fn write(to: &mut String, family: &Family) -> fmt::Result {
    let kind = match family.samples.first().map(|sample| &sample.1) {
        Some(Value::Counter(_)) => "counter",
        Some(Value::Gauge(_)) => "gauge",
        Some(Value::Histogram(_)) => "histogram",
        _ => "untyped",
    };
    let name = &family.name;
    let help = family.help.replace('\\', r"\\").replace('\n', r"\n");
    write!(to, "# HELP {name} {help}\n# TYPE {name} {kind}\n")?;
    for FamilySample(labels, value) in &family.samples {
        let labels = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        match value {
            Value::Histogram(histogram) => {
                sample(to, &format!("{name}_sum"), &labels, number(histogram.sum))?;
                sample(to, &format!("{name}_count"), &labels, histogram.count)?;
                for (count, bound) in &histogram.buckets {
                    // "1.0", not "1": the series then has the name that it has from protobuf.
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
    use crate::prometheus::family::{Histogram, numbers};

    /// Does the text have the names, types, numbers and escapes that its readers expect?
    #[test]
    fn families_are_written_as_readers_expect() {
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
        assert_eq!(text(&families), classic);
    }
}
