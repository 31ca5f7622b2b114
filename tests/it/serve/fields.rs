//! Do the tables of crates/metrics/fields.md list the fields of `/latency` and the queues, with
//! their units? Method: compare them with answers of servers under several settings. Each field
//! needs one row, and each row needs a field in some answer.

use super::native::busy;
use forebay::metrics::{Late, Stage};
use support::prelude::*;

const PAGE: &str = include_str!("../../../crates/metrics/fields.md");

/// The rows of the table whose first column has the title `column`, as cells without backquotes.
fn table(column: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let begin = format!("\n| {column} |");
    let rows = PAGE.split_once(&begin).unwrap_or_else(|| panic!("no table of {column}")).1.lines().skip(2);
    let cells = |row: &'static str| row.split('|').map(|cell| cell.trim().trim_matches('`')).collect::<Vec<_>>();
    rows.take_while(|row| row.starts_with("| `")).map(cells).map(|cells| cells[1..].to_vec())
}

/// Whether `word`, in capitals in a row, is a placeholder that matches `name`.
fn stands_for(word: &str, name: &str) -> bool {
    match word {
        "STAGE" => Stage::NAMES.contains(&name),
        "CLASS" => ["all", "short", "long"].contains(&name),
        "FATE" => Fate::NAMES.contains(&name),
        "REASON" => Malformed::NAMES.contains(&name),
        "LATE" => Late::NAMES.contains(&name),
        "OWN" => Named::REASON_NAMES.contains(&name),
        "WINDOW" => ["10s", "60s"].contains(&name),
        "FIELD" => ["since_start", "windows", "utilisation", "time_scale"].contains(&name),
        "P" => name == "max" || Percentile::ALL.iter().any(|percentile| percentile.name().replace('.', "_") == name),
        "QUEUE" => name.strip_prefix("queue").is_some_and(|number| number.parse::<u8>().is_ok()),
        _ => word == name,
    }
}

fn is_of(row: &str, path: &str) -> bool {
    let (row, path): (Vec<&str>, Vec<&str>) = (row.split('.').collect(), path.split('.').collect());
    row.len() == path.len() && row.iter().zip(&path).all(|(word, name)| stands_for(word, name))
}

/// The path of each field in `value` that is a text, a number, a list or null.
fn fields(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    let Value::Object(object) = value else {
        found.insert(path.to_owned());
        return;
    };
    for (key, value) in object {
        fields(value, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
    }
}

/// A handler with names of its own, which works uninterrupted.
struct Named;

impl Handler for Named {
    type Ticket = ();

    const REASON_NAMES: &'static [&'static str] = &["opcode"];

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        uninterrupted(|| reply.put(request.bytes())).await.expect("as long");
    }
}

/// Answers of several servers, which together have every field.
fn answers() -> Vec<Value> {
    let named = Running::on(bound(&[("workers", "2")]), Named);
    ask(&named, "a piece of work");
    let emulated = emulated(1, &[("workers", "3")]);
    let client = Client::new(emulated.udp);
    for id in 0..1_200 {
        let cost = if id % 50 == 0 { Nanos::from_millis(4) } else { Nanos::from_micros(10) };
        client.send(&message(&Header::request(id, 0, cost), b""));
        assert_eq!(client.receive().header.id, id);
    }
    vec![latency(busy(60, &[]).admin), latency(named.admin), latency(emulated.admin)]
}

// Has each field exactly one row, and each row a field?
#[test]
fn every_field_has_a_row() {
    let rows: Vec<_> = table("field").collect();
    let mut left: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(left.len(), rows.len(), "a field has one row");
    for answer in answers() {
        let mut found = BTreeSet::new();
        fields(&answer, "", &mut found);
        for field in &found {
            let of: Vec<&str> = rows.iter().map(|row| row[0]).filter(|row| is_of(row, field)).collect();
            let unknown = answer.pointer(&format!("/{}", field.replace('.', "/"))).is_some_and(Value::is_null);
            // If an object is null, its fields are absent.
            let parent = unknown && rows.iter().any(|row| row[0].starts_with(&format!("{field}.")));
            let stage = unknown && field.ends_with(".kernel");
            assert!(of.len() == 1 || parent || stage, "{field} has the rows {of:?}");
            left.retain(|row| !of.contains(row));
        }
    }
    assert_eq!(left, BTreeSet::new(), "no answer has these");
}

// Is the unit of each row clear from its name, or from the first lines of the page?
#[test]
fn every_unit_is_said() {
    let server = busy(1, &[]);
    let text = page(server.admin, "/latency");
    assert!(text.starts_with("{\"schema\":\"forebay-latency/2\",\"units\":{"), "{text}");
    let units: BTreeMap<String, String> =
        serde_json::from_value(latency(server.admin)["units"].clone()).expect("names and units");
    for row in table("field") {
        let (field, unit) = (row[0], row[1]);
        let (first, last) = (field.split('.').next().expect("a word"), field.split('.').next_back().expect("a word"));
        let is_count = ["count", "supported"].contains(&last);
        let by_name = [("us", "us"), ("seconds", "s"), ("share", "share")].into_iter().find_map(|(end, unit)| {
            let ends = field.split('.').any(|word| word.rsplit('_').next() == Some(end));
            ends.then_some(unit)
        });
        let said = by_name.or_else(|| units.get(first).map(String::as_str)).filter(|_| !is_count && first != "units");
        assert_eq!(said.unwrap_or_default(), unit, "{field}");
    }
}

// Are exactly the queues of the policy shown, and has each a row? crates/metrics/fields.md lists
// the names of pools.
#[test]
fn every_queue_has_a_row() {
    let rows: Vec<&str> = table("queue").map(|row| row[0]).collect();
    let mut left: BTreeSet<&str> = rows.iter().copied().collect();
    for (policy, expected) in [
        ("isolated", &["deques", "flows", "waits"][..]),
        ("global", &["queue0", "uninterrupted", "deques", "flows", "waits"]),
        ("steal", &["uninterrupted", "deques", "flows", "waits"]),
        ("shed", &["queue0", "uninterrupted", "deques", "flows", "waits"]),
        ("pools", &["front", "heavy", "deques", "flows", "waits"]),
        ("levels", &["queue0", "queue1", "queue2", "uninterrupted", "deques", "flows", "waits"]),
    ] {
        let (server, _) = run_scripted(&[("policy", policy), ("workers", "2")]);
        let name = |line: &str| line.strip_prefix("forebay_queue_depth{queue=\"")?.split('"').next().map(str::to_owned);
        let shown: Vec<String> = server.metrics().lines().filter_map(name).collect();
        assert_eq!(shown, expected, "{policy}");
        for queue in shown.iter().filter(|_| policy != "pools") {
            let of = rows.iter().find(|row| stands_for(row, queue)).unwrap_or_else(|| panic!("no row of {queue}"));
            left.remove(of);
        }
    }
    assert_eq!(left, BTreeSet::new(), "no policy has these");
}
