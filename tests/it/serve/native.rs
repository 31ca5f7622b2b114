//! Does Prometheus read native histograms correctly? Method: decode protobuf, and compare with the
//! HDR histograms of `/latency.hlog`. A Prometheus reads it too. `deploy/try-fleet` adds the
//! histograms of several servers.

use super::family::{self, Family, Histogram, Metric, Number, Value as Shown};
use super::interval_log::histograms;
use flate2::read::GzDecoder;
use prost::Message;
use support::prelude::*;

const PROTOBUF: &str = "accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,*/*;q=0.1\r\n";

/// A server at rest that has answered `requests` requests. Every seventh is long, and there is a
/// tail.
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

fn families(server: &Running) -> BTreeMap<String, Family> {
    let (head, body) = exchange(server.admin, "GET /metrics", PROTOBUF).expect("an answer");
    assert!(head.contains("content-type: application/vnd.google.protobuf; proto=io.prometheus"), "{head}");
    let (mut bytes, mut families) = (&body[..], BTreeMap::new());
    while !bytes.is_empty() {
        let family = Family::decode_length_delimited(&mut bytes).expect("a family");
        assert!(families.insert(family.name.clone(), family).is_none(), "a family occurs once");
    }
    families
}

fn histogram<'a>(families: &'a BTreeMap<String, Family>, name: &str, labels: &[(&str, &str)]) -> &'a Histogram {
    let has = |metric: &&Metric| {
        labels.iter().all(|(name, value)| metric.0.iter().any(|label| label.0 == *name && label.1 == *value))
    };
    let metric = families[name].metrics.iter().find(has).expect("the labels");
    let Some(Shown::Histogram(histogram)) = &metric.1 else { panic!("{metric:?}") };
    histogram
}

fn buckets(histogram: &Histogram) -> BTreeMap<i32, u64> {
    assert_eq!((histogram.schema, histogram.zero_count), (5, 0));
    let threshold = histogram.zero_threshold;
    assert!(threshold > 0.0 && threshold < 1e-30, "a native histogram, also an empty one");
    let (mut deltas, mut number, mut count) = (histogram.deltas.iter(), 0, 0);
    let mut buckets = BTreeMap::new();
    for family::Span(gap, length) in &histogram.spans {
        number += gap;
        for _ in 0..*length {
            count += deltas.next().expect("a delta for each bucket");
            buckets.insert(number, u64::try_from(count).expect("a count"));
            number += 1;
        }
    }
    assert_eq!((deltas.len(), buckets.values().sum()), (0, histogram.count));
    buckets
}

// Are the counts those of `/latency.hlog`, and does the last bucket contain the longest time?
#[test]
fn buckets_have_what_was_measured() {
    let server = busy(900, &[]);
    let (shown, exact) = (families(&server), histograms(&server));
    for (class, stage) in [("short", "total"), ("long", "total"), ("short", "queue"), ("long", "service")] {
        let one = histogram(&shown, "forebay_latency_seconds", &[("class", class), ("stage", stage)]);
        assert!(one.start.is_some_and(|start| start.0 > 1_500_000_000));
        let (buckets, exact) = (buckets(one), &exact[&format!("{class}.{stage}")]);
        let (last, longest) = (buckets.last_key_value().expect("a bucket").0, exact.max() as f64 / 1e9);
        let [low, high] = [last - 1, *last].map(|number| 2_f64.powf(f64::from(number) / 32.0));
        assert_eq!(one.count, exact.len(), "{class} {stage}");
        assert!(longest > low && longest <= high, "{class} {stage}: {longest} is not above {low} up to {high}");
    }
}

// Does protobuf have the same families and values as the text, with sums, counts and classic
// buckets?
#[test]
fn protobuf_says_what_the_text_says() {
    let server = busy(50, &[]);
    let (families, text) = (families(&server), server.metrics());
    let in_text = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    assert_eq!(families.keys().map(String::as_str).collect::<BTreeSet<_>>(), in_text.collect());
    let received = families["forebay_datagrams_received_total"].metrics[0].1.clone();
    assert_eq!(received, Some(Shown::Counter(Number(50.0))));
    // Read as a scraper does: by the type of the family.
    let quantiles = &families["forebay_latency_quantile_seconds"];
    let maximum = quantiles.metrics.iter().find(|metric| {
        let values: Vec<&str> = metric.0.iter().map(|label| &*label.1).collect();
        values == ["service", "long", "start", "1"]
    });
    let series = "forebay_latency_quantile_seconds{stage=\"service\",class=\"long\",window=\"start\",quantile=\"1\"}";
    let in_text = metric(&text, series);
    assert!(in_text > 0.0 && maximum.expect("one").1 == Some(Shown::Untyped(Number(in_text))), "{maximum:?}");
    let labels = [("stage", "service"), ("class", "long")];
    let long = histogram(&families, "forebay_latency_seconds", &labels);
    let of_text =
        |what: &str| metric(&text, &format!("forebay_latency_seconds_{what}{{stage=\"service\",class=\"long\"}}"));
    assert_eq!((long.count, long.sum), (8, of_text("sum")));
    assert_eq!(long.buckets.len(), 55);
    assert!(long.buckets.last().is_some_and(|last| last.0 == 8 && last.1.is_infinite()));
    assert_eq!(buckets(histogram(&families, "forebay_slowdown", &[("class", "long")])).values().sum::<u64>(), 8);
}

// Does a Prometheus that reads protobuf find the same as in the text: types, help, numbers, and the
// histograms of the log?
#[test]
fn a_prometheus_reads_it() {
    let server = busy(900, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    let Some((_prometheus, address)) = prometheus(server.admin, folder.path()) else { return };
    let asked = |path: &str| -> Value {
        let answer = http(address, &format!("GET /api/v1/{path}"));
        answer.and_then(|answer| serde_json::from_str(&answer.body).ok()).unwrap_or_default()
    };
    let shown = |query: &str| {
        let signs: String = query.bytes().map(|sign| format!("%{sign:02x}")).collect();
        let value = asked(&format!("query?query={signs}"))["data"]["result"][0]["value"][1].clone();
        value.as_str().and_then(|value| value.parse::<f64>().ok())
    };
    let received = || shown("forebay_datagrams_received_total") == Some(900.0);
    await_until(received, "Prometheus does not read what the server received");

    let (text, exact) = (server.metrics(), &histograms(&server)["long.service"]);
    let series = "forebay_latency_quantile_seconds{stage=\"service\",class=\"long\",window=\"start\",quantile=\"1\"}";
    assert_eq!(shown(series), Some(metric(&text, series)));
    assert_eq!(shown("forebay_build_info"), Some(1.0));
    let long = "(forebay_latency_seconds{stage=\"service\",class=\"long\"})";
    assert_eq!(shown(&format!("histogram_count{long}")), Some(exact.len() as f64));
    let sum = metric(&text, "forebay_latency_seconds_sum{stage=\"service\",class=\"long\"}");
    assert_eq!(shown(&format!("histogram_sum{long}")), Some(sum));
    for quantile in [0.5, 0.9, 1.0] {
        let query = format!("histogram_quantile({quantile}, {}", &long[1..]);
        let (shown, exact) = (shown(&query).expect("a value"), exact.value_at_quantile(quantile) as f64 / 1e9);
        assert!((shown / exact - 1.0).abs() < 0.03, "{quantile}: {shown}, and {exact} in the log");
    }
    for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        let said = &asked(&format!("metadata?metric={name}"))["data"][name][0];
        assert_eq!(said["type"], kind.replace("untyped", "unknown"), "{name}");
        assert!(text.contains(&format!("# HELP {name} {}\n", said["help"].as_str().expect("text"))), "{name}: {said}");
    }
}

/// A Prometheus that scrapes `target` as protobuf, and its address. `None`, and skipped, if it is
/// not installed.
fn prometheus(target: SocketAddr, folder: &Path) -> Option<(Process, SocketAddr)> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port");
    let job = format!("{{job_name: a, scrape_interval: 500ms, static_configs: [{{targets: ['{target}']}}]}}");
    fs::write(folder.join("config.yml"), format!("scrape_configs: [{job}]")).expect("a file");
    let flags = ["--config.file=config.yml", "--storage.tsdb.path=data", "--enable-feature=native-histograms"];
    let mut command = Command::new("prometheus");
    command.args(flags).arg(format!("--web.listen-address={free}")).current_dir(folder).stderr(Stdio::null());
    match command.spawn() {
        Ok(child) => Some((Process { child }, free)),
        Err(error) => {
            skip(format_args!("prometheus cannot be run: {error}"));
            None
        }
    }
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
        // Prometheus' own counters of the process change meanwhile.
        let lines = |text: &str| text.lines().next().map(|line| line.chars().take(60).collect::<String>());
        assert_eq!(lines(&text), lines(&String::from_utf8(plain).expect("text")), "{path}");
        assert!(packed.len() < text.len(), "{path}");
    }
}
