//! Reads a [`Trace`] and computes its load, its length and its workload.

use super::cost::{parse_class, parse_cost, recorded};
use super::{Workload, lines};
use forebay_base::fate::CLASSES;
use forebay_base::overheads::Overheads;
use forebay_base::time::Nanos;
use forebay_base::trace::SCHEMA;
pub use forebay_base::trace::{Trace, TraceRequest};
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

/// The most lines to read, comments excluded: slightly more than the most requests of a run.
pub const TRACE_LINES_MAX: usize = 51_000_000;
/// The largest file to read: [`TRACE_LINES_MAX`] lines of about 80 bytes. Lines have this length
/// after 1,000 hours of a run.
const BYTES_MAX: u64 = 4 << 30;

/// The longest time without a request. A longer one would stall a replay, so it is taken for a
/// typing error.
const PAUSE_MAX: Nanos = Nanos::from_secs(3_600);

const LINE: &str = "INTENDED SENT CLASS COST FLOW SOCKET [SOURCE] in each line, like 1ms 1.1ms short 500ns 17 3";

/// Reads a [`Trace`] and summarises its requests.
pub trait Recording: Sized {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If it cannot be read, or is not a trace.
    fn read(path: &Path) -> Result<Self, String>;

    /// Reads `text`.
    ///
    /// # Errors
    /// If it is not a trace.
    fn parse(text: &str) -> Result<Self, String>;

    /// The number of measured requests.
    fn measured(&self) -> u64;

    /// The load until the last request, as a share of the workers' time, if each request takes
    /// `beside` more than its cost.
    fn load_with(&self, beside: Nanos) -> f64;

    /// The load, with the costs of the server to receive and answer requests.
    fn load(&self) -> f64;

    /// The time until the last request was due, divided by the time scale.
    fn seconds(&self) -> f64;

    /// The costs of the trace as a workload to draw from. Classes without a request are left out,
    /// so class numbers may change.
    fn to_workload(&self) -> Workload;
}

impl Recording for Trace {
    fn read(path: &Path) -> Result<Trace, String> {
        parse(lines::open(path)?, BYTES_MAX)
    }

    fn parse(text: &str) -> Result<Trace, String> {
        parse(text.as_bytes(), BYTES_MAX)
    }

    fn measured(&self) -> u64 {
        self.requests.iter().filter(|request| request.intended >= self.warmup).count() as u64
    }

    fn load_with(&self, beside: Nanos) -> f64 {
        let work: f64 = self.requests.iter().map(|request| request.cost.plus(beside).as_secs_f64()).sum();
        work / self.seconds() / f64::from(self.workers)
    }

    fn load(&self) -> f64 {
        self.load_with(self.overheads.per_request())
    }

    fn seconds(&self) -> f64 {
        let last = self.requests.iter().map(|request| request.intended).max().unwrap_or(Nanos::ZERO);
        last.max(Nanos::new(1)).as_secs_f64() / self.time_scale as f64
    }

    fn to_workload(&self) -> Workload {
        let mut costs = vec![Vec::new(); CLASSES];
        self.requests.iter().for_each(|request| costs[usize::from(request.class)].push(request.cost));
        let classes = recorded(costs.into_iter().filter(|costs| !costs.is_empty()));
        Workload { name: self.workload.clone(), classes, beside: self.overheads.per_request() }
    }
}

fn parse(text: impl Read, bytes_max: u64) -> Result<Trace, String> {
    let (mut offered, mut count): (Option<Trace>, _) = (None, 0);
    let too_long = format!("it has more than {TRACE_LINES_MAX} lines or 4 GiB");
    lines::each(text, bytes_max, &too_long, |words| {
        count += 1;
        match &mut offered {
            _ if count > TRACE_LINES_MAX => return Err(too_long.clone()),
            None => offered = Some(parse_header(words)?),
            Some(offered) => offered.requests.push(parse_request(words, offered)?),
        }
        Ok(())
    })?;
    let offered = offered.filter(|offered| !offered.requests.is_empty());
    offered.ok_or_else(|| format!("it offers no request: write the header and {LINE}, as `GET /capture` does"))
}

fn parse_request(line: &str, offered: &Trace) -> Result<TraceRequest, String> {
    let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
    let (intended, sent, class, cost, flow, socket, source) = match words[..] {
        [intended, sent, class, cost, flow, socket] => (intended, sent, class, cost, flow, socket, "0"),
        [intended, sent, class, cost, flow, socket, source] => (intended, sent, class, cost, flow, socket, source),
        _ => return Err(format!("it has {} words: write {LINE}", words.len())),
    };
    let time = |text: &str| text.parse::<Nanos>().map_err(|error| error.to_string());
    let number = |text: &str, name: &str| {
        text.parse::<u16>().map_err(|_| format!("`{text}` is no {name}: write a number from 0 to {}", u16::MAX))
    };
    let request = TraceRequest {
        intended: time(intended)?,
        sent: time(sent)?,
        cost: parse_cost(cost)?,
        flow: number(flow, "flow")?,
        socket: number(socket, "socket")?,
        class: parse_class(class)? as u8,
        source: number(source, "source")?,
    };
    if request.sent < request.intended {
        return Err(format!("sent at {sent}, before {intended}: nothing is sent before it should be"));
    }
    let last = offered.requests.last().map_or(Nanos::ZERO, |last| last.sent);
    if request.sent < last {
        return Err(format!("sent at {sent}, before the line above, at {last}: write them in the order of sending"));
    }
    if request.sent.minus(last) > PAUSE_MAX {
        return Err(format!("sent at {sent}, and the last one at {last}: a pause is at most {PAUSE_MAX}"));
    }
    if request.socket >= offered.workers {
        let last = offered.workers - 1;
        return Err(format!("socket {socket} of {} workers: write a number from 0 to {last}", offered.workers));
    }
    Ok(request)
}

const FORM: &str = "forebay-trace/1 time-scale=K burn=cpu|sleep [overheads=SET] workers=N seed=N warmup=TIME [deadline=TIME] \
     [left-out=N] workload=NAME";

/// The trace with the values of the header, and no requests yet.
fn parse_header(line: &str) -> Result<Trace, String> {
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

/// The overheads in a header. A file name is refused, because the file of the server's host is not
/// on this host.
fn overheads(text: &str) -> Result<Overheads, String> {
    text.parse().map_err(|error| format!("overheads: {error}"))
}

fn time(key: &str, text: &str) -> Result<Nanos, String> {
    text.parse::<Nanos>().map_err(|error| format!("{key}: {error}"))
}

#[cfg(test)]
mod tests;
