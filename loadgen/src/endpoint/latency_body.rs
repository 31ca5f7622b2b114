//! Checks the body of `GET /latency` ([`LATENCY_SCHEMAS`]) before `loadgen` uses its figures. Keys
//! that `loadgen` does not read are ignored, except within `fates`: all fates must be known,
//! because they are summed. A server that is older than a fate does not name it.

use crate::text::escaped;
use forebay::fate::Fate;
use forebay::metrics::LATENCY_SCHEMAS;
use serde_json::{Map, Value};

/// The key beside the fates for datagrams that the kernel dropped before the server. It is `null`
/// if the server cannot count them.
const KERNEL_DROPPED: &str = "kernel_dropped";
/// A message shows at most this many characters of a wrong value.
const SHOWN_CHARS: usize = 40;

/// Checks `body`. The error describes its first problem: the field's path, its value, and the
/// expected value.
pub(crate) fn check(body: &Value) -> Result<(), String> {
    let known = |schema: &Value| LATENCY_SCHEMAS.iter().any(|known| schema == known);
    expect(body, "/schema", known, &LATENCY_SCHEMAS.map(|known| format!("\"{known}\"")).join(" or "))?;
    expect(body, "/policy", |policy| policy.as_str().is_some_and(|name| !name.is_empty()), "a name")?;
    let workers = |value: &Value| whole(value).is_some_and(|count| (1..=u64::from(u16::MAX)).contains(&count));
    expect(body, "/workers", workers, "a number from 1 to 65535")?;
    expect(body, "/burn", |burn| burn == "cpu" || burn == "sleep", "\"cpu\" or \"sleep\"")?;
    expect(body, "/time_scale", |scale| whole(scale).is_some_and(|scale| scale > 0), "a whole number above 0")?;
    check_fates(body)?;
    if body.get("start_time_seconds").is_some() {
        let fits = |seconds: &Value| seconds.is_number() || seconds.is_null();
        expect(body, "/start_time_seconds", fits, "a number of seconds, or null")?;
    }
    Ok(())
}

/// A count. JSON has one kind of number, so 1.0 is also a count.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    let whole = |number: f64| (number >= 0.0 && number.fract() == 0.0).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn check_fates(body: &Value) -> Result<(), String> {
    let mut fates = object(body, "/fates")?.clone();
    let names = Fate::NAMES.into_iter().chain(["received", "in_flight", KERNEL_DROPPED]);
    if let Some(stranger) = fates.keys().find(|key| !names.clone().any(|name| name == key.as_str())) {
        return Err(format!("/fates has a key that is no fate: {}", shown(&Value::from(stranger.as_str()))));
    }
    for name in names {
        let path = format!("/fates/{name}");
        let fits = |value: &Value| whole(value).is_some() || (name == KERNEL_DROPPED && value.is_null());
        if fates.contains_key(name) || !Fate::NAMES.contains(&name) {
            expect(body, &path, fits, "a whole number")?;
        }
    }
    let mut take = |name: &str| fates.remove(name).as_ref().and_then(whole).unwrap_or(0);
    let received = take("received");
    let accounted = Fate::NAMES.into_iter().chain(["in_flight"]).map(take).fold(0, u64::saturating_add);
    if received != accounted {
        return Err(format!("/fates/received is {received}, and the fates with in_flight add up to {accounted}"));
    }
    Ok(())
}

fn object<'a>(body: &'a Value, path: &str) -> Result<&'a Map<String, Value>, String> {
    let value = body.pointer(path);
    value.and_then(Value::as_object).ok_or_else(|| complaint(path, value, "an object"))
}

fn expect(body: &Value, path: &str, fits: impl Fn(&Value) -> bool, allowed: &str) -> Result<(), String> {
    let value = body.pointer(path);
    if value.is_some_and(fits) { Ok(()) } else { Err(complaint(path, value, allowed)) }
}

fn complaint(path: &str, value: Option<&Value>, allowed: &str) -> String {
    let is = value.map_or("is missing".to_owned(), |value| format!("is {}", shown(value)));
    format!("{path} {is}, and has to be {allowed}")
}

/// The value as JSON, with all control characters escaped.
fn shown(value: &Value) -> String {
    let text = escaped(&value.to_string());
    let cut: String = text.chars().take(SHOWN_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}..") } else { cut }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::metrics::{Collector, Gauges, WorkerMetrics};
    use serde_json::json;

    /// The body of a server that has received three datagrams and finished none.
    fn body() -> Value {
        let metrics = WorkerMetrics::new(1);
        metrics.recorder(0).received(3);
        let body = Collector::new(&metrics).snapshot(Gauges::default()).to_json();
        let mut body: Value = serde_json::from_str(&body).expect("JSON");
        // Only a server that is set up describes itself, so the test does.
        body["policy"] = json!("steal");
        body["workers"] = json!(2);
        body["burn"] = json!("cpu");
        body["time_scale"] = json!(1);
        body
    }

    #[test]
    fn what_a_server_says_is_in_order_whatever_stands_beside_it() {
        assert_eq!(check(&body()), Ok(()));
        let mut other = body();
        other["more"] = json!("to come");
        other["time_scale"] = json!(1_000.0);
        other["fates"]["kernel_dropped"] = Value::Null;
        assert_eq!(check(&other), Ok(()));
        other.as_object_mut().expect("an object").remove("start_time_seconds");
        assert_eq!(check(&other), Ok(()), "a server that does not tell when it started");
        other["schema"] = json!("forebay-latency/1");
        assert_eq!(check(&other), Ok(()), "a server of the schema before");
    }

    // Is each field that `loadgen` reads also checked? Method: remove each field, and replace it by
    // wrong values.
    #[test]
    fn every_field_that_is_read_is_looked_at() {
        let fields = ["/schema", "/policy", "/workers", "/burn", "/time_scale", "/fates"];
        let more = ["/fates/received", "/fates/in_flight", "/fates/kernel_dropped"];
        let fates = Fate::NAMES.map(|fate| format!("/fates/{fate}"));
        for path in fields.into_iter().chain(more).map(str::to_owned).chain(fates) {
            let (parent, key) = path.rsplit_once('/').expect("a path");
            let mut without = body();
            let removed = without.pointer_mut(parent).and_then(Value::as_object_mut).expect("an object").remove(key);
            assert!(removed.is_some(), "{path}");
            if Fate::NAMES.contains(&key) {
                assert_eq!(check(&without), Ok(()), "a server that is older than the fate {key}");
                without["fates"]["in_flight"] = json!(2);
                let error = check(&without).expect_err("a fate that is not named has no datagram");
                assert!(error.starts_with("/fates/received is 3, and"), "{error}");
            } else {
                let error = check(&without).expect_err("a field is missing");
                assert!(error.contains(&path), "without {path}: {error}");
            }
            for other in [json!(""), json!(-1), json!(0.5), json!([]), json!(true)] {
                let mut wrong = body();
                *wrong.pointer_mut(&path).expect("a field") = other.clone();
                assert!(check(&wrong).is_err(), "{path} = {other}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_allowed() {
        let changed = |path: &str, value: Value| {
            let mut body = body();
            *body.pointer_mut(path).expect("a field") = value;
            check(&body).expect_err("a wrong field")
        };
        for (error, said) in [
            (check(&json!({})).expect_err("nothing"), "/schema is missing, and has to be \"forebay-latency/2\" or"),
            (check(&Value::Null).expect_err("nothing"), "/schema is missing"),
            (check(&json!([])).expect_err("nothing"), "/schema is missing"),
            (changed("/schema", json!("forebay-latency/9")), "/schema is \"forebay-latency/9\""),
            (changed("/workers", json!(65_536)), "/workers is 65536, and has to be a number from 1 to 65535"),
            (changed("/burn", json!("nap\u{1b}[2J")), r#"/burn is "nap\u001b[2J", and has to be "cpu" or "sleep""#),
            (changed("/policy", json!({"a": "x".repeat(1_000)})), ".., and has to be a name"),
            (changed("/fates/received", json!(4)), "received is 4, and the fates with in_flight add up to 3"),
        ] {
            assert!(error.contains(said), "{said}: {error}");
        }
        let mut body = body();
        body["fates"]["eaten"] = json!(0);
        assert!(check(&body).is_err_and(|error| error.contains("no fate: \"eaten\"")));
    }
}
