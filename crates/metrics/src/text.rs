//! `GET /latency?text` and `GET /slow?text`: the most useful figures as text. Columns are named
//! after the JSON fields.

use super::snapshot::{Snapshot, blocks, time};
use super::window::Stage;
use serde_json::Value;

impl Snapshot {
    /// The body of `GET /latency?text`: fates, load, and the latency of each class and stage.
    pub fn to_text(&self) -> String {
        let about = &self.gauges.description;
        let follows = self.gauges.decision.as_ref().map_or(&about.policy, |made| &made.policy);
        let busy = self.utilisation[1].unwrap_or_default() * 100.0;
        let oldest = self.oldest().map(|(class, age)| format!(" {class} {}", time(age.as_micros_f64())));
        let mut text = format!(
            "{}: {} workers, {busy:.0} % busy in the last 10 s, policy {} (now {follows})\noldest unfinished request:{}\n\nSince the start\n{}",
            about.listen,
            about.workers,
            about.policy,
            oldest.collect::<String>(),
            self.summary(),
        );
        text += &format!("\nLast 10 s\n{}\nLast 60 s\n", blocks(Stage::Total, &self.last_10s));
        text.extend(Stage::ALL.map(|stage| blocks(stage, &self.last_60s)));
        text
    }
}

/// The lists of `GET /slow` that `GET /slow?text` shows, each with the fields that become its
/// columns.
const LISTS: [(&str, &str); 6] = [
    ("WORKERS", "worker busy running/for_us running/class running/request"),
    ("HELPERS", "helper running_us"),
    ("WAITING", "class age_us request place"),
    ("SOCKETS", "worker waiting_bytes"),
    ("BLOCKED", "class by_class requests blocked_us cause"),
    (
        "SLOWEST",
        "class latency_us kernel_us queue_us set_aside_us for_helper_us on_helper_us service_us ended_s_ago request",
    ),
];

/// The body of `GET /slow?text`, made of the body of `GET /slow`.
pub fn slow_text(report: &Value) -> String {
    let name = |class: u64| report["class_names"][class as usize].as_str().unwrap_or("?");
    let cell = |field: &str, value: Option<&Value>| match (value, value.and_then(Value::as_f64)) {
        (_, Some(class)) if field.ends_with("class") => name(class as u64).to_owned(),
        (_, Some(us)) if field.ends_with("_us") => time(us),
        (_, Some(share)) if field == "busy" => format!("{:.0} %", share * 100.0),
        (Some(Value::String(name)), _) => name.replace('_', " "),
        (Some(Value::Null) | None, _) => "-".to_owned(),
        (Some(value), _) => value.to_string(),
    };
    let mut text = String::new();
    for (list, fields) in LISTS {
        let title = |field: &str| field.trim_start_matches("running/").trim_end_matches("_us").replace('_', " ");
        let titles = fields.split(' ').map(|field| format!(" {:>11}", title(field)));
        text += &format!("{list}\n{}\n", titles.collect::<String>());
        for row in report[list.to_lowercase()].as_array().into_iter().flatten() {
            let cells =
                fields.split(' ').map(|field| format!(" {:>11}", cell(field, row.pointer(&format!("/{field}")))));
            text += &format!("{}\n", cells.collect::<String>());
            if let Some(why) = row["culprit"]["text"].as_str() {
                let class = row["culprit"]["class"].as_u64().unwrap_or_default();
                text += &format!("{:12}{}\n", "", why.replace(&format!("class {class}"), name(class)));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use crate::{ClassNames, Collector, Gauges, Sample, WorkerMetrics};
    use serde_json::json;

    // Does the text name classes and causes, with fitting units, in aligned columns?
    #[test]
    fn slow_requests_are_told_in_columns() {
        let culprit = json!({ "class": 1, "text": "worker 1 ran request 790 (class 1) for 5312 us" });
        let text = slow_text(&json!({
            "class_names": ["query", "transfer"],
            "workers": [{ "worker": 0, "busy": 0.714, "running": { "request": 900, "class": 1, "for_us": 120.0 } },
                { "worker": 1, "busy": 0.0, "running": null }],
            "helpers": [{ "helper": 0, "running_us": 12e6 }, { "helper": 1, "running_us": null }],
            "waiting": [{ "request": 813, "class": 0, "age_us": 5312.0, "place": "running on worker 0", "culprit": culprit }],
            "sockets": [{ "worker": 3, "waiting_bytes": 1280, "culprit": null }],
            "blocked": [{ "class": 0, "by_class": 1, "cause": "no_checkpoint", "requests": 31, "blocked_us": 20311.0 },
                { "class": 7, "by_class": null, "cause": "run_queue", "requests": 1, "blocked_us": 1e9 }],
            "slowest": [{ "request": 801_234_567_890_u64, "class": 1, "ended_s_ago": 3.2, "latency_us": 812.0, "delay_us": 790.0,
                "kernel_us": 12.0, "queue_us": 770.0, "set_aside_us": 0.0, "for_helper_us": 0.0, "on_helper_us": 5.0, "service_us": 20.0, "worker": 1, "culprit": culprit }],
        }));
        let expected = "\
WORKERS
      worker        busy         for       class     request
           0        71 %      120 us    transfer         900
           1         0 %           -           -           -
HELPERS
      helper     running
           0      12.0 s
           1           -
WAITING
       class         age     request       place
       query     5.31 ms         813 running on worker 0
            worker 1 ran request 790 (transfer) for 5312 us
SOCKETS
      worker waiting bytes
           3        1280
BLOCKED
       class    by class    requests     blocked       cause
       query    transfer          31     20.3 ms no checkpoint
           ?           -           1      1000 s   run queue
SLOWEST
       class     latency      kernel       queue   set aside  for helper   on helper     service ended s ago     request
    transfer      812 us     12.0 us      770 us     0.00 us     0.00 us     5.00 us     20.0 us         3.2 801234567890
            worker 1 ran request 790 (transfer) for 5312 us
";
        assert_eq!(text, expected);
    }

    // Does the text have the handler's class names, each stage, the fates and the load, within 100
    // columns?
    #[test]
    fn latency_is_told_in_columns() {
        let metrics = WorkerMetrics::new(1);
        let (mut collector, mut recorder) = (Collector::new(&metrics), metrics.recorder(0));
        let mut names = ClassNames::default();
        names.0[1] = "transfer";
        recorder.received(3);
        recorder.answered(&Sample { class: 1, service: Nanos::from_micros(2_181), ..Sample::default() });
        collector.collect();
        let text = collector.snapshot(Gauges { class_names: names, ..Gauges::default() }).to_text();
        assert!(text.contains("received 3, answered 1, in_flight 2") && text.contains("transfer 0.00 us"), "{text}");
        let row = "transfer          1    2.18 ms    2.18 ms    2.18 ms    2.18 ms    2.18 ms";
        assert_eq!(text.lines().filter(|line| *line == row).count(), 4, "three windows and the service: {text}");
        for stage in Stage::NAMES {
            assert!(text.lines().any(|line| line.starts_with(&format!("{stage:<8}      count"))), "{stage}: {text}");
        }
        assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    }
}
