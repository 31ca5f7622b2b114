//! `forebay check --host`: what of a host keeps a server from its latency, and what changes it. It changes nothing.

mod host;
mod rows;
#[cfg(test)]
mod tests;

use super::FAILED;
use super::results::Failure;
use crate::config;
use clap::Args;
use rows::{Change, Host, ROWS, Row, Wanted};
use serde_json::{Value, json};
use std::fmt::Write as _;
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

/// How one row stands.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Ok,
    /// Worth changing, by these commands.
    Change(Vec<String>),
    Unread(String),
}

/// A row of the table on this host.
#[derive(Debug)]
struct Finding {
    row: &'static Row,
    /// The name of the row, with the interface if it has one.
    name: String,
    path: String,
    /// Absent where it could not be read.
    value: Option<String>,
    wanted: String,
    state: State,
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
    let text = if arguments.json { in_json(&host, &findings) } else { in_text(&findings) };
    let is_change = findings.iter().any(|finding| matches!(finding.state, State::Change(_)));
    Ok((text, if is_change { FAILED } else { 0 }))
}

/// Every row of the table, those of interfaces once for each. The loopback has no queues and no neighbours.
fn findings(host: &Host) -> Vec<Finding> {
    let mut all = Vec::new();
    for row in &ROWS {
        match &host.interfaces {
            _ if !row.path.contains("/IF/") => all.push(finding(host, row, row.name.to_owned(), row.path.to_owned())),
            Ok(names) => all.extend(names.iter().filter(|name| *name != "lo").map(|interface| {
                let path = row.path.replace("/IF/", &format!("/{interface}/"));
                finding(host, row, format!("{}, {interface}", row.name), path)
            })),
            Err(why) => {
                let (state, wanted) = (State::Unread(why.clone()), wanted(host, row).2);
                all.push(Finding {
                    row,
                    name: row.name.to_owned(),
                    path: row.path.to_owned(),
                    value: None,
                    wanted,
                    state,
                });
            }
        }
    }
    all
}

fn finding(host: &Host, row: &'static Row, name: String, path: String) -> Finding {
    let (least, most, wanted) = wanted(host, row);
    let (value, state) = match (row.read)(host, &path) {
        Err(why) => (None, State::Unread(why)),
        Ok(seen) if (least..=most).contains(&seen.number) => (Some(seen.text), State::Ok),
        Ok(seen) => {
            let bound = if seen.number < least { least } else { most };
            let written = match row.change {
                Change::Bound => Ok(bound.to_string()),
                Change::Text(text) => text(host),
                Change::ByHand(advice) => Err(advice.to_owned()),
            };
            let commands = match written {
                Ok(text) => seen.places.iter().map(|place| format!("echo {text} | tee {place}")).collect(),
                Err(advice) => vec![advice],
            };
            (Some(seen.text), State::Change(commands))
        }
    };
    Finding { row, name, path, value, wanted, state }
}

/// The least and the most that is ok, and their text.
fn wanted(host: &Host, row: &Row) -> (u64, u64, String) {
    match row.wanted {
        Wanted::AtLeast(least) => (least(host), u64::MAX, format!("at least {} {}", least(host), row.unit)),
        Wanted::AtMost(most) => (0, most, format!("at most {most} {}", row.unit)),
    }
}

fn in_text(findings: &[Finding]) -> String {
    let mut text = String::new();
    let (mut changes, mut unread) = (0, 0);
    for Finding { row, name, value, wanted, state, .. } in findings {
        let value = value.as_deref().unwrap_or("-");
        let line = match state {
            State::Ok => format!("{name:<28} ok                    {value}\n"),
            State::Unread(why) => {
                unread += 1;
                format!("{name:<28} could not be read     {why}\n")
            }
            State::Change(commands) => {
                changes += 1;
                let mut lines = format!("{name:<28} worth changing        {value}; wanted: {wanted}\n");
                writeln!(lines, "    why:    {}\n    see:    {}", row.why, row.see).expect(INFALLIBLE);
                commands.iter().for_each(|command| writeln!(lines, "    change: {command}").expect(INFALLIBLE));
                lines
            }
        };
        text += &line;
    }
    let all = findings.len();
    text + &format!("{changes} of {all} worth changing, {unread} could not be read; deploy/host.md explains the rows\n")
}

const INFALLIBLE: &str = "a String takes whatever is written";

fn in_json(host: &Host, findings: &[Finding]) -> String {
    let row = |finding: &Finding| -> Value {
        let Finding { row, name, path, value, wanted, state } = finding;
        let (state, why_unread, change) = match state {
            State::Ok => ("ok", None, &[][..]),
            State::Change(commands) => ("change", None, &commands[..]),
            State::Unread(why) => ("unread", Some(why), &[][..]),
        };
        json!({
            "name": name, "path": path, "value": value, "state": state, "why_unread": why_unread, "wanted": wanted,
            "why": row.why, "see": row.see, "change": change,
        })
    };
    let rows: Vec<Value> = findings.iter().map(row).collect();
    let interfaces = host.interfaces.as_ref().ok();
    let document =
        json!({"schema": "forebay-check/1", "workers": host.workers, "interfaces": interfaces, "rows": rows});
    format!("{document:#}\n")
}
