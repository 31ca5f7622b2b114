//! The first line of what a run offered.

use super::Offered;
use crate::time::{Nanos, parse_duration};
use std::fmt;

const SCHEMA: &str = "forebay-offered/1";
const FORM: &str =
    "forebay-offered/1 time-scale=K burn=cpu|sleep workers=N seed=N warmup=TIME [deadline=TIME] workload=NAME";

pub(super) fn write(offered: &Offered, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let burn = if offered.emulated { "sleep" } else { "cpu" };
    let Offered { time_scale, workers, seed, warmup, workload, .. } = offered;
    write!(f, "{SCHEMA} time-scale={time_scale} burn={burn} workers={workers} seed={seed} warmup={warmup} ")?;
    if let Some(deadline) = offered.deadline {
        write!(f, "deadline={deadline} ")?;
    }
    writeln!(f, "workload={workload}")
}

/// The header, without requests.
pub(super) fn parse(line: &str) -> Result<Offered, String> {
    let form = |what: &str| format!("{what}: the first line is {FORM}");
    // The workload's name may hold blanks, so it comes last.
    let (words, workload) = line.split_once(" workload=").ok_or_else(|| form("it names no workload"))?;
    let mut words = words.split_whitespace();
    if words.next() != Some(SCHEMA) {
        return Err(form(&format!("it does not begin with {SCHEMA}")));
    }
    let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
    for word in words {
        let place =
            word.split_once('=').and_then(|(key, value)| Some((KEYS.iter().position(|known| *known == key)?, value)));
        let (place, value) = place.ok_or_else(|| form(&format!("`{word}` is no part of it")))?;
        if values[place].replace(value).is_some() {
            return Err(form(&format!("`{}` is there twice", KEYS[place])));
        }
    }
    let [time_scale, burn, workers, seed, warmup, deadline] = values;
    let given =
        |key: &str, value: Option<&str>| value.map(str::to_owned).ok_or_else(|| form(&format!("`{key}` is missing")));
    let wrong = |key: &str, value: &str, allowed: &str| format!("{key}={value}: write {allowed}");
    let time = |key: &str, value: &str| parse_duration(value).map_err(|error| format!("{key}: {error}"));
    let time_scale = given(KEYS[0], time_scale)?;
    let workers = given(KEYS[2], workers)?;
    let seed = given(KEYS[3], seed)?;
    Ok(Offered {
        time_scale: time_scale
            .parse()
            .ok()
            .filter(|scale| (1..=1_000_000).contains(scale))
            .ok_or_else(|| wrong(KEYS[0], &time_scale, "a number from 1 to 1000000"))?,
        emulated: match given(KEYS[1], burn)?.as_str() {
            "sleep" => true,
            "cpu" => false,
            other => return Err(wrong(KEYS[1], other, "cpu or sleep")),
        },
        workers: workers
            .parse()
            .ok()
            .filter(|workers| (1..=1_024).contains(workers))
            .ok_or_else(|| wrong(KEYS[2], &workers, "a number from 1 to 1024"))?,
        seed: seed.parse().map_err(|_| wrong(KEYS[3], &seed, "a whole number"))?,
        warmup: time(KEYS[4], &given(KEYS[4], warmup)?)?,
        deadline: deadline.map(|text| time(KEYS[5], text)).transpose()?.filter(|deadline| *deadline > Nanos::ZERO),
        workload: workload.trim().to_owned(),
        requests: Vec::new(),
    })
}

const KEYS: [&str; 6] = ["time-scale", "burn", "workers", "seed", "warmup", "deadline"];
