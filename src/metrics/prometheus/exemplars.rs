//! Exemplars: in OpenMetrics text, a bucket of the total times names a request that `/slow` shows. prometheus-client can write
//! exemplars of its own histograms only.

use crate::time::Nanos;

const BUCKET: &str = r#"forebay_latency_seconds_bucket{le=""#;
const OF_CLASS: &str = r#"",stage="total",class=""#;

/// `text` with the slowest of these requests in each bucket; each has a class, a number and a latency. `name` is that of a class.
pub(super) fn with_exemplars(text: &str, requests: &[(u8, u64, Nanos)], name: impl Fn(u8) -> &'static str) -> String {
    let (mut with, mut lower) = (String::with_capacity(text.len()), 0.0);
    for line in text.lines() {
        with.push_str(line);
        if let Some((class, upper)) = bucket(line) {
            let is_within = |time: &Nanos| time.as_secs_f64() > lower && time.as_secs_f64() <= upper;
            let slowest = requests.iter().filter(|(of, _, time)| name(*of) == class && is_within(time));
            if let Some((_, id, time)) = slowest.max_by_key(|(.., time)| *time) {
                with.push_str(&format!(r#" # {{request="{id}"}} {}"#, time.as_secs_f64()));
            }
            lower = if upper.is_finite() { upper } else { 0.0 };
        }
        with.push('\n');
    }
    with
}

/// The class and the upper bound of a bucket.
fn bucket(line: &str) -> Option<(&str, f64)> {
    let (upper, rest) = line.strip_prefix(BUCKET)?.split_once(OF_CLASS)?;
    Some((rest.split_once('"')?.0, upper.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Has each bucket the slowest request between its bounds, of its class, and has no other line one?
    #[test]
    fn a_bucket_names_its_slowest_request() {
        let lines =
            |class: &str| ["0.1", "0.2", "+Inf"].map(|le| format!("{BUCKET}{le}{OF_CLASS}{class}\"}} 1\n")).concat();
        let text = format!("{}{}other{{le=\"0.2\"}} 1\n", lines("short"), lines("long"));
        let requests = [(0, 1, 200), (0, 2, 150), (1, 3, 50), (1, 4, 9_500)];
        let requests = requests.map(|(class, id, ms)| (class, id, Nanos::from_millis(ms)));
        let with = with_exemplars(&text, &requests, |class| ["short", "long"][usize::from(class)]);
        let ends: Vec<&str> = with.lines().map(|line| line.split_once("} 1").expect("a sample").1).collect();
        let one = r#" # {request="1"} 0.2"#;
        assert_eq!(ends, ["", one, "", r#" # {request="3"} 0.05"#, "", r#" # {request="4"} 9.5"#, ""]);
    }
}
