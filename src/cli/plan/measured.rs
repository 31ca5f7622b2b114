//! Measurements of a running server, as a workload and a rate.

use crate::fate::CLASS_NAMES;
use crate::time::Nanos;
use crate::workload::Workload;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The measurements of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) workload: Workload,
    /// Requests per second of the last minute.
    pub(super) rate: f64,
    pub(super) policy: String,
    pub(super) workers: u64,
}

/// The timeout of a request: an endpoint answers within a tenth of a second.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The block over which rates are counted, and its length.
const WINDOW: (&str, f64) = ("60s", 60.0);
/// Requests in [`WINDOW`] that make a plan: enough for percentiles, and no more than a host can serve.
const SERVED: RangeInclusive<u64> = 1_000..=100_000_000_000;
/// The number of costs that represent the distribution of a class: its percentiles end at the 99.99th.
const COSTS: u32 = 10_000;

/// Reads the server at `url`, the address of `/latency`.
///
/// # Errors
/// A message in words.
pub(super) fn ask(url: &str) -> Result<Measured, String> {
    let wrong = |reason: String| {
        format!("--from {url}: {reason}; write the address of an admin endpoint, like http://127.0.0.1:9001/latency")
    };
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let base = with_scheme.trim_end_matches('/').trim_end_matches("/latency");
    let agent: ureq::Agent = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT)).build().into();
    let mut response = agent.get(format!("{base}/latency")).call().map_err(|error| wrong(error.to_string()))?;
    let body: Value = response.body_mut().read_json().map_err(|error| wrong(error.to_string()))?;
    read(&body).map_err(wrong)
}

/// Reads the body of `/latency`.
fn read(body: &Value) -> Result<Measured, String> {
    if body["schema"] != "forebay-latency/1" {
        return Err("it does not speak forebay-latency/1".to_owned());
    }
    // Under emulation all times are longer by this factor.
    let scale = body["time_scale"].as_f64().filter(|scale| (1.0..=1e6).contains(scale)).unwrap_or(1.0);
    let service = &body["windows"][WINDOW.0]["service"];
    let requests = |class: &str| service[class]["count"].as_u64().unwrap_or(0);
    let classes: Vec<(u64, Vec<Nanos>)> = CLASS_NAMES
        .into_iter()
        .filter(|class| requests(class) > 0)
        .map(|class| (requests(class), costs(&service[class], scale)))
        .collect();
    let served = classes.iter().fold(0_u64, |served, (requests, _)| served.saturating_add(*requests));
    if !SERVED.contains(&served) {
        return Err(format!(
            "it has served {served} requests in the last 60 s, and a plan needs {} to {}",
            SERVED.start(),
            SERVED.end()
        ));
    }
    let workload = Workload::measured("measured", classes)
        .ok_or("its service times are not whole: each class needs some, and the longest is 1h")?;
    Ok(Measured {
        workload,
        rate: served as f64 / WINDOW.1 * scale,
        policy: body["policy"].as_str().unwrap_or("unknown").to_owned(),
        workers: body["workers"].as_u64().unwrap_or(0),
    })
}

/// Costs with the percentiles of `block`: on straight lines between them, and constant below the median.
fn costs(block: &Value, scale: f64) -> Vec<Nanos> {
    let points = [
        ("p50", 0.5),
        ("p90", 0.9),
        ("p99", 0.99),
        ("p99_9", 0.999),
        ("p99_95", 0.9995),
        ("p99_99", 0.9999),
        ("max", 1.0),
    ];
    let points = points.map(|(key, quantile)| (quantile, block[key].as_f64().unwrap_or(0.0) * 1e3 / scale));
    let cost = |rank: u32| {
        let quantile = (f64::from(rank) + 0.5) / f64::from(COSTS);
        let above = points.iter().position(|(end, _)| quantile <= *end).unwrap_or(points.len() - 1);
        let (end, value) = points[above];
        let Some((begin, lower)) = above.checked_sub(1).map(|below| points[below]) else { return value };
        lower + (value - lower) * (quantile - begin) / (end - begin)
    };
    (0..COSTS).map(|rank| Nanos::new(cost(rank).round() as u64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn percentiles_become_costs_and_counts_a_rate() {
        let block = |count: u64, us: f64| json!({"count": count, "p50": us, "p90": us, "p99": us, "p99_9": us, "p99_95": us, "p99_99": us, "max": 2.0 * us});
        let body = |short: u64| {
            json!({"schema": "forebay-latency/1", "policy": "steal", "workers": 4, "time_scale": 1000,
                "windows": {"60s": {"service": {"all": block(short + 600, 1e3), "short": block(short, 20e3), "long": block(600, 2e6)}}}})
        };
        let measured = read(&body(59_400)).expect("enough");
        assert_eq!((measured.rate, measured.workers, measured.policy.as_str()), (1e6, 4, "steal"));
        let workload = measured.workload;
        // Of 10,000 costs one lies on the way to the maximum.
        assert_eq!(workload.smallest_cost(), Nanos::new(20_001));
        assert!((workload.mean().get() as f64 / 39_800.0 - 1.0).abs() < 0.001, "{}", workload.mean());
        assert!(read(&body(100)).is_err_and(|reason| reason.contains("700 requests")));
        assert!(read(&json!({"schema": "other"})).is_err());
        for (count, us) in [(u64::MAX, 1.0), (60_000, 1e300), (60_000, f64::MAX), (60_000, -1.0)] {
            let hostile = json!({"schema": "forebay-latency/1",
                "windows": {"60s": {"service": {"short": block(count, us), "long": block(count, us)}}}});
            assert!(read(&hostile).is_err(), "{count} requests of {us} us were taken");
        }
    }
}
