//! The first line of a trace.

use super::Trace;
use crate::emulation::overheads::Overheads;
use crate::time::{Nanos, parse_duration};
use crate::trace::SCHEMA;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

const FORM: &str = "forebay-trace/1 time-scale=K burn=cpu|sleep [overheads=SET] workers=N seed=N warmup=TIME [deadline=TIME] \
     [left-out=N] workload=NAME";

/// The trace of a header, still without requests.
pub(super) fn parse(line: &str) -> Result<Trace, String> {
    let form = |what: &str| format!("{what}: the first line is {FORM}");
    // The workload's name may hold blanks, so it comes last.
    let (words, workload) = line.split_once(" workload=").ok_or_else(|| form("it names no workload"))?;
    let mut words = words.split_whitespace();
    if words.next() != Some(SCHEMA) {
        return Err(form(&format!("it does not begin with {SCHEMA}")));
    }
    let mut values = BTreeMap::new();
    for word in words {
        let known = word.split_once('=').filter(|(key, _)| KEYS.contains(key));
        let (key, value) = known.ok_or_else(|| form(&format!("`{word}` is no part of it")))?;
        if values.insert(key, value).is_some() {
            return Err(form(&format!("`{key}` is there twice")));
        }
    }
    let given = |key: &str| values.get(key).copied().ok_or_else(|| form(&format!("`{key}` is missing")));
    Ok(Trace {
        time_scale: number("time-scale", given("time-scale")?, 1..=1_000_000)?,
        emulated: match given("burn")? {
            "sleep" => true,
            "cpu" => false,
            other => return Err(format!("burn={other}: write cpu or sleep")),
        },
        overheads: values.get("overheads").map_or(Ok(Overheads::NONE), |text| overheads(text))?,
        workers: number("workers", given("workers")?, 1..=1_024)? as u16,
        seed: number("seed", given("seed")?, 0..=u64::MAX)?,
        warmup: time("warmup", given("warmup")?)?,
        deadline: values.get("deadline").map(|text| time("deadline", text)).transpose()?,
        left_out: values.get("left-out").map_or(Ok(0), |text| number("left-out", text, 0..=u64::MAX))?,
        workload: workload.trim().to_owned(),
        requests: Vec::new(),
    })
}

const KEYS: [&str; 8] = ["time-scale", "burn", "overheads", "workers", "seed", "warmup", "deadline", "left-out"];

fn number(key: &str, text: &str, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("{key}={text}: write a number from {} to {}", allowed.start(), allowed.end()))
}

/// A set of overheads as a trace names it; a file on the host that reads it is not the server's.
fn overheads(text: &str) -> Result<Overheads, String> {
    if text.starts_with("file:") || text == "measured" {
        return Err(format!("overheads={text}: write a name or steps, and no file"));
    }
    text.parse().map_err(|error| format!("overheads: {error}"))
}

fn time(key: &str, text: &str) -> Result<Nanos, String> {
    parse_duration(text).map_err(|error| format!("{key}: {error}"))
}
