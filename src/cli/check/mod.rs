//! `forebay check --host`: what of a host keeps a server from its latency, and what changes it. It changes nothing.

mod host;
mod rows;
#[cfg(test)]
mod tests;

use super::FAILED;
use super::results::Failure;
use crate::config;
use clap::Args;
use host::{Host, Seen};
use rows::{Change, ROWS, Row};
use serde::Serialize;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Flags of `forebay check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArguments {
    /// Check the settings of this host
    #[arg(long, required = true)]
    host: bool,
    /// Addresses of the server, which name the interfaces
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "127.0.0.1:9000")]
    listen: Vec<SocketAddr>,
    /// Workers of the server [default: the CPUs this process may use]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Folder with the host's proc and sys, as a container mounts them
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// Print JSON, schema forebay-check/1
    #[arg(long)]
    json: bool,
}

/// How a row stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Change,
    Unread,
}

/// A row of the table on this host, as JSON has it.
#[derive(Debug, Serialize)]
struct Finding {
    /// The name of the row, with the interface if it has one.
    name: String,
    path: String,
    state: State,
    value: Option<String>,
    why_unread: Option<String>,
    wanted: String,
    why: &'static str,
    see: &'static str,
    /// Commands that change it, or advice.
    change: Vec<String>,
}

/// Looks at the host. Returns what to print, and the exit code: 1 if something is worth changing.
pub(super) fn check(arguments: &CheckArguments) -> Result<(String, u8), Failure> {
    let workers = arguments.workers.map_or_else(config::cpus, usize::from);
    let host = Host {
        root: arguments.root.clone(),
        workers,
        sockets: workers * arguments.listen.len(),
        interfaces: host::interfaces(&arguments.listen),
        page_bytes: rustix::param::page_size(),
    };
    let findings = findings(&host);
    let text = if arguments.json {
        let (schema, interfaces) = ("forebay-check/1", host.interfaces.as_ref().ok());
        let document = json!({"schema": schema, "workers": workers, "interfaces": interfaces, "rows": findings});
        format!("{document:#}\n")
    } else {
        in_text(&findings)
    };
    Ok((text, if count(&findings, State::Change) > 0 { FAILED } else { 0 }))
}

fn count(findings: &[Finding], state: State) -> usize {
    findings.iter().filter(|finding| finding.state == state).count()
}

/// Every row of the table, those of interfaces once for each. The loopback has no queues and no neighbours.
fn findings(host: &Host) -> Vec<Finding> {
    let of_row = |row: &'static Row| {
        let interfaces: Vec<_> = match &host.interfaces {
            _ if !row.path.contains("/IF/") => vec![Ok(None)],
            Ok(names) => names.iter().filter(|name| *name != "lo").map(|name| Ok(Some(name))).collect(),
            Err(why) => vec![Err(why.clone())],
        };
        interfaces.into_iter().map(move |interface| finding(host, row, interface))
    };
    ROWS.iter().flat_map(of_row).collect()
}

/// How `row` stands, on an `interface` if it has one.
fn finding(host: &Host, row: &'static Row, interface: Result<Option<&String>, String>) -> Finding {
    let (name, path) = match interface {
        Ok(Some(one)) => (format!("{}, {one}", row.name), row.path.replace("/IF/", &format!("/{one}/"))),
        _ => (row.name.to_owned(), row.path.to_owned()),
    };
    let (bound, wanted) = wanted(host, row);
    let (state, value, why_unread, change) = match interface.and_then(|_| (row.read)(host, &path)) {
        Err(why) => (State::Unread, None, Some(why), Vec::new()),
        Ok(Seen { number, text, .. }) if (row.wanted)(host).contains(&number) => {
            (State::Ok, Some(text), None, Vec::new())
        }
        Ok(Seen { text, places, .. }) => {
            let written = match row.change {
                Change::Bound => Ok(bound.to_string()),
                Change::Text(text) => text(host),
                Change::ByHand(advice) => Err(advice.to_owned()),
            };
            let command = |text: String| places.iter().map(|place| format!("echo {text} | tee {place}")).collect();
            (State::Change, Some(text), None, written.map_or_else(|advice| vec![advice], command))
        }
    };
    Finding { name, path, state, value, why_unread, wanted, why: row.why, see: row.see, change }
}

/// The bound of what is ok, and its text.
fn wanted(host: &Host, row: &Row) -> (u64, String) {
    let (least, most) = (row.wanted)(host).into_inner();
    let (side, bound) = if most == u64::MAX { ("least", least) } else { ("most", most) };
    (bound, format!("at {side} {bound} {}", row.unit))
}

fn in_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for Finding { name, state, value, why_unread, wanted, why, see, change, .. } in findings {
        let value = value.as_ref().or(why_unread.as_ref()).map_or("", String::as_str);
        text += &match state {
            State::Ok => format!("{name:<28} ok                    {value}\n"),
            State::Unread => format!("{name:<28} could not be read     {value}\n"),
            State::Change => {
                let change: String = change.iter().map(|command| format!("    change: {command}\n")).collect();
                let value = format!("{value}; wanted: {wanted}");
                format!("{name:<28} worth changing        {value}\n    why:    {why}\n    see:    {see}\n{change}")
            }
        };
    }
    let (all, changes, unread) = (findings.len(), count(findings, State::Change), count(findings, State::Unread));
    text + &format!("{changes} of {all} worth changing, {unread} could not be read; deploy/host.md explains the rows\n")
}
