//! From the OpenMetrics text that prometheus-client writes to the classic format 0.0.4.
//!
//! The samples are the same. The differences: a counter's family name includes `_total`, an info's includes `_info` and
//! its type is gauge; there are no units and no end mark.

/// The classic form of `text`.
pub(super) fn from_open_metrics(text: &str) -> String {
    let mut classic = String::with_capacity(text.len());
    // The name depends on the type, which comes a line later.
    let mut help = "";
    for line in text.lines() {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(family) = line.strip_prefix("# TYPE ") {
            write_family(&mut classic, help, family);
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            classic.push_str(line);
            classic.push('\n');
        }
    }
    classic
}

/// Writes one family: `help` is its whole `# HELP` line, `family` the name and type after `# TYPE`.
fn write_family(classic: &mut String, help: &str, family: &str) {
    let (name, open_type) = family.split_once(' ').unwrap_or((family, "unknown"));
    let (suffix, classic_type) = match open_type {
        "counter" => ("_total", "counter"),
        "info" => ("_info", "gauge"),
        "unknown" => ("", "untyped"),
        same => ("", same),
    };
    let words = help.splitn(4, ' ').nth(3).unwrap_or_default();
    for part in ["# HELP ", name, suffix, " ", words, "\n# TYPE ", name, suffix, " ", classic_type, "\n"] {
        classic.push_str(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Are the families renamed and the samples kept?
    #[test]
    fn families_are_renamed_and_samples_kept() {
        let open = "# HELP jobs Jobs, with a # TYPE in it.\n# TYPE jobs counter\njobs_total{kind=\"a b\"} 3\n\
            # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n\
            wait_seconds_bucket{le=\"+Inf\"} 1\n# HELP build B.\n# TYPE build info\nbuild_info{v=\"1\"} 1\n# EOF\n";
        let classic = "# HELP jobs_total Jobs, with a # TYPE in it.\n# TYPE jobs_total counter\njobs_total{kind=\"a b\"} 3\n\
            # HELP wait_seconds Waits.\n# TYPE wait_seconds histogram\nwait_seconds_bucket{le=\"+Inf\"} 1\n\
            # HELP build_info B.\n# TYPE build_info gauge\nbuild_info{v=\"1\"} 1\n";
        assert_eq!(from_open_metrics(open), classic);
    }
}
