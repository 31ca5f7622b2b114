//! Results for other programs (`--out`): a row for each second and class, the formats of
//! HdrHistogram, and JUnit.

use crate::drive::Exchange;
use crate::plan::Plan;
use crate::report::by_class::{ByClass, Values, block_of};
use crate::report::histogram::histogram;
use crate::report::json::RunReport;
use crate::report::seen::seen;
use crate::report::slo::Held;
use crate::report::validity::Validity;
use crate::results::Format;
use forebay::metrics::Percentile;
use forebay::output::plain;
use forebay::time::clock;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

/// The percentiles of a row.
const SHOWN: [Percentile; 3] = [Percentile::P50, Percentile::P99, Percentile::P99_9];

const CSV_HEADER: &str = "rate,second,class,sent,answered,lost,p50_us,p99_us,p99.9_us,max_us\n";

const HLOG_COMMENT: &str =
    "Latency of answered requests from the intended send, of each second and class; in nanoseconds";

const HGRM_HEADER: &str = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n";

const NANOS_PER_MICRO: f64 = 1e3;

/// Adds a run to the `text` of a file.
pub(crate) fn add(format: Format, text: &mut String, plan: &Plan, report: &RunReport, exchange: &Exchange) {
    match format {
        Format::Csv => csv(text, plan, exchange),
        Format::Hlog => hlog(text, plan, exchange),
        Format::Hgrm => hgrm(text, report),
        Format::Junit => *text = junit(&cases(report)),
    }
}

/// The latencies of each second and class, in microseconds, infinite without an answer in time.
fn seconds(plan: &Plan, exchange: &Exchange) -> Vec<ByClass<Vec<f64>>> {
    let (mut seconds, none) = (Vec::new(), ByClass::<Values>::empty(plan.class_names()).map(|_| Vec::new()));
    for seen in seen(plan, exchange) {
        seconds.resize(seconds.len().max(seen.second + 1), none.clone());
        seconds[seen.second].of_request(seen.request.class).for_each(|values| values.push(seen.latency_us()));
    }
    seconds
}

fn csv(text: &mut String, plan: &Plan, exchange: &Exchange) {
    if text.is_empty() {
        text.push_str(CSV_HEADER);
    }
    for (second, classes) in seconds(plan, exchange).into_iter().enumerate() {
        for (class, latencies) in classes.0 {
            let (sent, block) = (latencies.len() as u64, block_of(latencies));
            let shown = SHOWN.map(|percentile| block.percentile(percentile)).into_iter().chain([block.max]);
            let shown: Vec<_> = shown.map(|us| format!("{:.3}", us.unwrap_or(f64::INFINITY))).collect();
            let (rate, answered, lost, shown) = (plan.rate, block.count, sent - block.count, shown.join(","));
            let _ = writeln!(text, "{rate},{second},{class},{sent},{answered},{lost},{shown}");
        }
    }
}

fn hlog(text: &mut String, plan: &Plan, exchange: &Exchange) {
    let (mut log, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let began = clock::realtime().minus(clock::now().minus(exchange.start.plus(plan.warmup)));
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("[Histogram log format version 1.3]").add_comment(HLOG_COMMENT);
    builder.with_start_time(UNIX_EPOCH + Duration::from(began)).with_max_value_divisor(NANOS_PER_MICRO);
    let mut writer = builder.begin_log_with(&mut log, &mut serializer).expect("a vector takes everything");
    for (second, classes) in (0..).zip(seconds(plan, exchange)) {
        for (class, latencies) in &classes.0 {
            let (start, lasted) = (Duration::from(began) + Duration::from_secs(second), Duration::from_secs(1));
            let written = writer.write_histogram(&histogram(latencies), start, lasted, Tag::new(class));
            written.expect("a vector takes everything, and no bin holds more than fits");
        }
    }
    text.push_str(&String::from_utf8(log).expect("names, numbers and base64"));
}

/// The distribution of all latencies in microseconds, as HdrHistogram prints it.
fn hgrm(text: &mut String, report: &RunReport) {
    let packed = report.result.histograms.all();
    let histogram = packed.answered().expect("it was packed here");
    let (answered, mut count) = (histogram.len(), 0);
    let _ = writeln!(text, "#[{answered} of {} were answered in time, at {}/s]", packed.sent, report.offered_rps);
    text.push_str(HGRM_HEADER);
    for step in histogram.iter_quantiles(5) {
        count += step.count_since_last_iteration();
        let (value, quantile) = (step.value_iterated_to() as f64 / NANOS_PER_MICRO, step.quantile_iterated_to());
        let _ = writeln!(text, "{value:12.3} {quantile:14.12} {count:10} {:14.2}", 1.0 / (1.0 - quantile));
    }
    let [mean, deviation, max] =
        [histogram.mean(), histogram.stdev(), histogram.max() as f64].map(|nanos| nanos / NANOS_PER_MICRO);
    let _ = writeln!(text, "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]");
    let _ = writeln!(text, "#[Max     = {max:12.3}, Total count    = {answered:12}]");
}

/// A test case of a JUnit file: its name; and what is said beside it, as JUnit calls it and as
/// text.
pub(crate) type Case = (String, Option<(&'static str, String)>);

/// What is said beside a case that passes.
const PASSES: &str = "system-out";

/// A VALID run or one whose figures are upper bounds, and each term of its SLO.
fn cases(report: &RunReport) -> Vec<Case> {
    let (validity, reasons) = (report.verdict, report.reasons.join("; "));
    let (name, said) = match validity {
        Validity::Valid => (Validity::Valid, None),
        Validity::AtMost => (Validity::AtMost, Some((PASSES, reasons))),
        Validity::Invalid => (Validity::Valid, Some(("error", reasons))),
    };
    let of = |(name, held, why): &(String, Held, String)| {
        let said = match held {
            _ if !validity.is_usable() => Some(("skipped", "the run is INVALID".to_owned())),
            Held::Holds => None,
            Held::Undecided => Some(("error", why.clone())),
            Held::Fails => Some(("failure", why.clone())),
        };
        (format!("SLO {name}"), said)
    };
    let first = (format!("{name} for {}", report.facts.percentile), said);
    std::iter::once(first).chain(report.slo.iter().flat_map(|judged| &judged.terms).map(of)).collect()
}

/// A JUnit file.
pub(crate) fn junit(cases: &[Case]) -> String {
    let text = |text: &str| {
        let text = plain(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        text.replace('"', "&quot;").replace('\n', " ")
    };
    let count = |kind| cases.iter().flat_map(|(_, said)| said).filter(|(of, _)| *of == kind).count();
    let [errors, failures, skipped] = ["error", "failure", "skipped"].map(count);
    let tests = cases.len();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"loadgen\" tests=\"{tests}\" \
         errors=\"{errors}\" failures=\"{failures}\" skipped=\"{skipped}\">\n"
    );
    for (name, said) in cases {
        let said = said.as_ref().map_or_else(String::new, |(kind, said)| match *kind {
            PASSES => format!("<{kind}>{}</{kind}>", text(said)),
            _ => format!("<{kind} message=\"{}\"/>", text(said)),
        });
        let _ = writeln!(xml, "<testcase classname=\"loadgen\" name=\"{}\">{said}</testcase>", text(name));
    }
    xml + "</testsuite>\n</testsuites>\n"
}
