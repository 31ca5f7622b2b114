//! Measurements of a running server, as a workload and a rate.

use crate::fate::CLASS_NAMES;
use crate::lab::workload::Workload;
use crate::metrics::LATENCY_SCHEMAS;
use crate::time::Nanos;
use serde_json::Value;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The measurements of a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) workload: Workload,
    /// Requests per second that were asked for, answered or not.
    pub(super) rate: f64,
    /// The time that they cover.
    pub(super) seconds: f64,
    /// The share of them that was answered.
    pub(super) answered: f64,
    pub(super) policy: String,
    pub(super) workers: u64,
}

/// The timeout of a request: an endpoint answers within a tenth of a second.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Answered requests that make a plan: enough for percentiles, and no more than a host can serve.
const ANSWERED: RangeInclusive<u64> = 1_000..=100_000_000_000;
/// The number of costs that represent the distribution of a class: one request in 100,000 is among them.
const COSTS: u32 = 200_000;

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
    if !LATENCY_SCHEMAS.iter().any(|schema| body["schema"] == *schema) {
        return Err(format!("it does not speak {}", LATENCY_SCHEMAS.join(" or ")));
    }
    let demand = &body["demand"];
    // Under emulation all times are longer by this factor.
    let scale = body["time_scale"].as_f64().filter(|scale| (1.0..=1e6).contains(scale)).unwrap_or(1.0);
    let seconds = demand["seconds"].as_f64().filter(|seconds| (0.1..=1e6).contains(seconds));
    let (Some(seconds), Some(asked)) = (seconds, demand["asked"].as_u64()) else {
        return Err("it does not say what is asked of it (`demand`): its server is older".to_owned());
    };
    let count = |class: &str, key: &str| demand["classes"][class][key].as_u64().unwrap_or(0);
    let answered = CLASS_NAMES.into_iter().fold(0_u64, |sum, class| sum.saturating_add(count(class, "answered")));
    if !ANSWERED.contains(&answered) {
        return Err(format!(
            "it has answered {answered} requests in the last {seconds:.0} s, and a plan needs {} to {}",
            ANSWERED.start(),
            ANSWERED.end()
        ));
    }
    let mut classes = Vec::new();
    for class in CLASS_NAMES {
        let (answered, unanswered) = (count(class, "answered"), count(class, "unanswered"));
        if answered == 0 && unanswered > 0 {
            return Err(format!(
                "it has answered none of the {unanswered} requests of class {class} in the last {seconds:.0} s, so what they \
                 cost is not known: give it more workers, or wait"
            ));
        }
        if answered > 0 {
            let costs = costs(&demand["classes"][class], answered, scale).ok_or(NOT_WHOLE)?;
            classes.push((answered.saturating_add(unanswered), costs));
        }
    }
    let workload = Workload::measured("measured", classes).ok_or(NOT_WHOLE)?;
    Ok(Measured {
        workload,
        rate: asked as f64 / seconds * scale,
        seconds,
        answered: answered as f64 / asked.max(answered) as f64,
        policy: body["policy"].as_str().unwrap_or("unknown").to_owned(),
        workers: body["workers"].as_u64().unwrap_or(0),
    })
}

const NOT_WHOLE: &str = "its service times are not whole: each class needs some, and the longest is 1h";

/// Costs with the distribution of a class's bins, and the mean of the exact sum of its `answered` requests. `None` if one
/// is no time.
fn costs(class: &Value, answered: u64, scale: f64) -> Option<Vec<Nanos>> {
    let bin = |bin: &Value| Some((bin[0].as_f64().filter(|us| (0.0..=1e12).contains(us))?, bin[1].as_u64()? as f64));
    let bins: Vec<(f64, f64)> = class["bins_us"].as_array()?.iter().map(bin).collect::<Option<_>>()?;
    let (mut all, mut sum) = (0.0, 0.0);
    bins.iter().for_each(|(us, count)| (all, sum) = (all + count, sum + us * count));
    let exact = class["cpu_us"].as_f64().filter(|sum| (0.0..=1e18).contains(sum))? / answered as f64;
    // Bins are 1 % wide: anything else is no correction of them.
    let correction = exact / (sum / all);
    if !(0.9..=1.1).contains(&correction) {
        return None;
    }
    let (mut bins, mut below) = (bins.into_iter().peekable(), 0.0);
    let cost = |rank: u32| {
        let rank = (f64::from(rank) + 0.5) / f64::from(COSTS) * all;
        while let Some((_, count)) = bins.next_if(|(_, count)| below + count < rank) {
            below += count;
        }
        let (us, _) = bins.peek()?;
        Some(Nanos::new((us * correction * 1e3 / scale).round() as u64))
    };
    (0..COSTS).map(cost).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(seconds: f64, asked: u64, classes: &Value) -> Value {
        json!({"schema": "forebay-latency/2", "policy": "steal", "workers": 4, "time_scale": 1000,
            "demand": {"seconds": seconds, "asked": asked, "classes": classes}})
    }

    fn class(answered: u64, unanswered: u64, bins: &[(f64, u64)]) -> Value {
        let sum: f64 = bins.iter().map(|(us, count)| us * *count as f64).sum();
        json!({"answered": answered, "unanswered": unanswered, "cpu_us": sum, "bins_us": bins})
    }

    // Is the demand what was asked in the time that is covered, and every request's CPU time its class's?
    #[test]
    fn bins_become_costs_and_what_was_asked_a_rate() {
        let short = class(50_000, 0, &[(20e3, 49_450), (500e3, 550)]);
        let long = class(100, 900, &[(2e6, 100)]);
        let measured = read(&body(12.0, 60_000, &json!({"short": short, "long": long}))).expect("enough");
        assert_eq!((measured.rate, measured.seconds, measured.workers), (5e6, 12.0, 4));
        assert_eq!((measured.answered, measured.policy.as_str()), (50_100.0 / 60_000.0, "steal"));
        let shares: Vec<f64> = measured.workload.classes().iter().map(|class| class.share).collect();
        assert_eq!(shares, [50.0 / 51.0, 1.0 / 51.0]);
        let short = (20.0 * 49_450.0 + 500.0 * 550.0) / 50_000.0;
        let expected = (short * 50.0 + 2_000.0) / 51.0 * 1e3;
        assert!((measured.workload.mean().get() as f64 / expected - 1.0).abs() < 1e-3, "{}", measured.workload.mean());
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        let few = read(&body(12.0, 700, &json!({"short": class(700, 0, &[(1.0, 700)])})));
        assert!(few.is_err_and(|reason| reason.contains("700 requests in the last 12 s")));
        assert!(read(&json!({"schema": "other"})).is_err());
        let older = read(&json!({"schema": "forebay-latency/1"}));
        assert!(older.is_err_and(|reason| reason.contains("its server is older")));
        let short = class(2_000, 0, &[(1e3, 2_000)]);
        let starved = read(&body(9.0, 3_000, &json!({"short": short, "long": class(0, 1_000, &[])})));
        assert!(starved.is_err_and(|reason| reason.contains("none of the 1000 requests of class long")));
        for (count, us) in [(u64::MAX, 1e3), (60_000, 1e300), (60_000, f64::MAX), (60_000, -1.0), (60_000, 0.0)] {
            let hostile = class(count, 0, &[(us, count)]);
            assert!(read(&body(60.0, 60_000, &json!({"short": hostile}))).is_err(), "{count} requests of {us} us");
        }
        let mut wrong = body(60.0, 60_000, &json!({"short": short}));
        wrong["demand"]["classes"]["short"]["cpu_us"] = 1.0.into();
        assert!(read(&wrong).is_err(), "a sum that is not that of the bins");
    }
}
