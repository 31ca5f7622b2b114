//! Are native histograms what Prometheus takes them for? Method: protobuf, decoded by the published format, beside the HDR
//! histograms of `/latency.hlog`. `deploy/try-fleet` asks a Prometheus, and adds those of several servers up.

use super::interval_log::histograms;
use crate::support::prelude::*;
use flate2::read::GzDecoder;
use prometheus_client::encoding::prometheus_protobuf::prometheus_data_model::{self as model, MetricFamily};
use prost::Message;

const PROTOBUF: &str = "accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,*/*;q=0.1\r\n";

/// A server at rest that has answered `requests`, every seventh of them long, with a tail.
pub(super) fn busy(requests: u64, settings: &[(&str, &str)]) -> Running {
    let (server, _) = run_scripted(&[&[("policy", "steal"), ("workers", "2")], settings].concat());
    let client = Client::new(server.udp);
    for id in 0..requests {
        let (class, us) = if id % 7 == 0 { (1, 5 * id % 1_500) } else { (0, id % 50) };
        client.ask(&Header::request(id, class, Nanos::from_micros(us)), &[Act::Block as u8]);
    }
    let measured = || latency(server.admin)["since_start"]["total"]["all"]["count"] == requests;
    await_until(measured, "the answered requests are never added up");
    server
}

fn families(server: &Running) -> BTreeMap<String, MetricFamily> {
    let (head, body) = exchange(server.admin, "GET /metrics", PROTOBUF).expect("an answer");
    assert!(head.contains("content-type: application/vnd.google.protobuf; proto=io.prometheus"), "{head}");
    let (mut bytes, mut families) = (&body[..], BTreeMap::new());
    while !bytes.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut bytes).expect("a family");
        assert!(families.insert(family.name.clone(), family).is_none(), "a family occurs once");
    }
    families
}

fn histogram<'a>(
    families: &'a BTreeMap<String, MetricFamily>,
    name: &str,
    labels: &[(&str, &str)],
) -> &'a model::Histogram {
    let has = |metric: &&model::Metric| {
        labels.iter().all(|(name, value)| metric.label.iter().any(|label| label.name == *name && label.value == *value))
    };
    let metric = families[name].metric.iter().find(has).expect("the labels");
    metric.histogram.as_ref().expect("a histogram")
}

fn buckets(histogram: &model::Histogram) -> BTreeMap<i32, u64> {
    assert_eq!((histogram.schema, histogram.zero_count), (5, 0));
    let threshold = histogram.zero_threshold;
    assert!(threshold > 0.0 && threshold < 1e-30, "a native histogram, also an empty one");
    let (mut deltas, mut number, mut count) = (histogram.positive_delta.iter(), 0, 0);
    let mut buckets = BTreeMap::new();
    for span in &histogram.positive_span {
        number += span.offset;
        for _ in 0..span.length {
            count += deltas.next().expect("a delta for each bucket");
            buckets.insert(number, u64::try_from(count).expect("a count"));
            number += 1;
        }
    }
    assert_eq!((deltas.len(), buckets.values().sum()), (0, histogram.sample_count));
    buckets
}

// Are counts those that a reader of `/latency.hlog` finds, and has the last bucket the longest time?
#[test]
fn buckets_have_what_was_measured() {
    let server = busy(900, &[]);
    let (shown, exact) = (families(&server), histograms(&server));
    for (class, stage) in [("short", "total"), ("long", "total"), ("short", "queue"), ("long", "service")] {
        let one = histogram(&shown, "forebay_latency_seconds", &[("class", class), ("stage", stage)]);
        assert!(one.start_timestamp.is_some_and(|start| start.seconds > 1_500_000_000));
        let (buckets, exact) = (buckets(one), &exact[&format!("{class}.{stage}")]);
        let (last, longest) = (buckets.last_key_value().expect("a bucket").0, exact.max() as f64 / 1e9);
        let [low, high] = [last - 1, *last].map(|number| 2_f64.powf(f64::from(number) / 32.0));
        assert_eq!(one.sample_count, exact.len(), "{class} {stage}");
        assert!(longest > low && longest <= high, "{class} {stage}: {longest} is not above {low} up to {high}");
    }
}

// Does protobuf have the families and values of the text, sums, counts and classic buckets too?
#[test]
fn protobuf_says_what_the_text_says() {
    let server = busy(50, &[]);
    let (families, text) = (families(&server), server.metrics());
    let in_text = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(families.keys().map(String::as_str).collect::<BTreeSet<_>>(), in_text.collect());
    let received = families["forebay_datagrams_received_total"].metric[0].counter.as_ref().expect("a counter");
    assert_eq!(received.value, 50.0);
    // Read as a scraper does: by the type of the family.
    let quantiles = &families["forebay_latency_quantile_seconds"];
    assert_eq!(quantiles.r#type, model::MetricType::Gauge as i32);
    let maximum = quantiles.metric.iter().find(|metric| {
        let values: Vec<&str> = metric.label.iter().map(|label| label.value.as_str()).collect();
        values == ["service", "long", "start", "1"]
    });
    let series = "forebay_latency_quantile_seconds{stage=\"service\",class=\"long\",window=\"start\",quantile=\"1\"}";
    let maximum = maximum.and_then(|metric| metric.gauge.as_ref()).expect("a gauge").value;
    assert!(maximum > 0.0 && maximum == metric(&text, series), "{maximum}");
    let labels = [("stage", "service"), ("class", "long")];
    let long = histogram(&families, "forebay_latency_seconds", &labels);
    let of_text =
        |what: &str| metric(&text, &format!("forebay_latency_seconds_{what}{{stage=\"service\",class=\"long\"}}"));
    assert_eq!((long.sample_count, long.sample_sum), (8, of_text("sum")));
    assert_eq!(long.bucket.len(), 55);
    assert!(long.bucket.last().is_some_and(|last| last.cumulative_count == 8 && last.upper_bound.is_infinite()));
    assert_eq!(buckets(histogram(&families, "forebay_slowdown", &[("class", "long")])).values().sum::<u64>(), 8);
}

#[test]
fn pages_are_packed_on_demand() {
    let server = busy(50, &[]);
    for path in ["/metrics", "/latency", "/latency.hlog", "/config"] {
        let get = |headers: &str| exchange(server.admin, &format!("GET {path}"), headers).expect("an answer");
        let (head, packed) = get("accept-encoding: deflate, gzip;q=0.8\r\n");
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut text = String::new();
        GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("packed text");
        let (head, plain) = get("accept-encoding: gzip;q=0, identity\r\n");
        assert!(!head.contains("content-encoding"), "{head}");
        // What the process counts about itself moves on.
        let lines = |text: &str| text.lines().next().map(|line| line.chars().take(60).collect::<String>());
        assert_eq!(lines(&text), lines(&String::from_utf8(plain).expect("text")), "{path}");
        assert!(packed.len() < text.len(), "{path}");
    }
}
