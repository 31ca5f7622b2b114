//! If NSD and Knot agree, does this server give the same answer? Method: all three serve the same
//! zone file, and kdig asks each the same questions. Codes, flags, answers and authorities are
//! compared, with their TTLs.

#![allow(clippy::print_stdout, reason = "a test says how much it has compared")]

use crate::nasty::Nasty;
use crate::peers::{knot, nsd};
use crate::support::{Server, example_zone, have, kdig};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every name of the zone except in a circle of aliases, each of its ancestors, a name below each,
/// and each in capitals.
fn names() -> BTreeSet<String> {
    let zone = fs::read_to_string(example_zone()).expect("the zone");
    let owner = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
    let owners = zone
        .lines()
        .filter(|line| line.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "_*".contains(letter)));
    let mut names = BTreeSet::from([String::new(), "x.".to_owned()]);
    for owner in owners.map(owner).filter(|owner| !["circle", "elcric"].contains(&owner.as_str())) {
        let labels: Vec<&str> = owner.split('.').collect();
        for name in (0..labels.len()).map(|first| labels[first..].join(".")) {
            names.extend([format!("{name}."), format!("x.{name}."), format!("{}.", name.to_uppercase())]);
        }
    }
    names
}

const TYPES: [&str; 12] = ["A", "AAAA", "NS", "SOA", "MX", "TXT", "CNAME", "SRV", "CAA", "PTR", "DS", "TYPE65280"];

const WAYS: [&[&str]; 5] = [
    &["+noedns", "+ignore"],
    &["+edns", "+ignore"],
    &["+dnssec", "+ignore"],
    &["+bufsize=4096", "+ignore", "+norecurse", "+cdflag"],
    &["+tcp"],
];

/// The compared parts of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    code: String,
    flags: String,
    answer: BTreeSet<String>,
    authority: BTreeSet<String>,
}

#[test]
fn answers_are_those_of_nsd_and_knot() {
    if !have(&["kdig", "nsd", "knotd"]) {
        return;
    }
    let questions: Vec<(String, &str)> =
        names().iter().flat_map(|name| TYPES.map(|rtype| (format!("{name}example.test"), rtype))).collect();
    let compared = compare(&example_zone(), &WAYS.map(|_| questions.clone()));
    assert!(compared > 10_000, "NSD and Knot agree on {compared} parts only");
}

// The same question for a generated zone, in which wildcards, empty non-terminals, delegations and
// aliases are above, below and beside one another. FOREBAY_DNS_QUESTIONS sets another number of
// questions than 750.
#[test]
fn answers_of_a_nasty_zone_are_those_of_nsd_and_knot() {
    if !have(&["kdig", "nsd", "knotd"]) {
        return;
    }
    let count = std::env::var("FOREBAY_DNS_QUESTIONS").map_or(750, |count| count.parse().expect("a number"));
    // So many zones that each answers a few dozen questions of each kind.
    let per_way = 150_usize;
    let zones = (count / WAYS.len()).div_ceil(per_way);
    for seed in 0..zones as u64 {
        let mut nasty = Nasty::new(seed);
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), nasty.zone()).expect("written");
        let questions = WAYS.map(|_| (0..per_way).map(|_| nasty.question()).collect());
        println!("zone {seed}");
        let compared = compare(file.path(), &questions);
        assert!(compared > per_way * WAYS.len(), "NSD and Knot agree on {compared} parts only");
    }
}

/// Asks each server the questions of each kind. Returns on how many parts NSD and Knot agree; there
/// this server must agree, too.
fn compare(zone: &Path, questions: &[Vec<(String, &str)>; WAYS.len()]) -> usize {
    let dir = tempfile::tempdir().expect("a directory");
    let zones = [("example.test".to_owned(), zone.to_owned())];
    // A high bound, because one client gets hundreds of answers in a second.
    let ours = Server::start(zone, &["--set", "amplification=1000"]);
    let (nsd, knot) = (nsd(dir.path(), &zones), knot(dir.path(), &zones, None));
    let mut differences = Vec::new();
    let mut compared = 0;
    for (way, questions) in WAYS.iter().zip(questions) {
        let [ours, nsd, knot] = [ours.address, nsd.1, knot.1].map(|server| {
            let flags = [*way, &["+authority", "+nocrypto"]].concat();
            let said = kdig(server, &flags, questions);
            said.iter().map(|text| parse(text)).collect::<Vec<_>>()
        });
        for (index, (name, rtype)) in questions.iter().enumerate() {
            let (ours, nsd, knot) = (&ours[index], &nsd[index], &knot[index]);
            let mut compare = |what: &str, agree: bool, same: bool| {
                compared += usize::from(agree);
                if agree && !same {
                    differences.push(format!("{what} of {name} {rtype} {way:?}:\n  {ours:?}\n  {nsd:?}"));
                }
            };
            compare("code", nsd.code == knot.code, ours.code == nsd.code);
            compare("flags", nsd.flags == knot.flags, ours.flags == nsd.flags);
            // A client asks again after a truncated answer, so the remaining part does not matter.
            if !nsd.flags.contains(" tc") {
                compare("answer", nsd.answer == knot.answer, ours.answer == nsd.answer);
                compare("authority", nsd.authority == knot.authority, ours.authority == nsd.authority);
            }
        }
    }
    assert!(differences.is_empty(), "{} differences:\n{}", differences.len(), differences.join("\n"));
    println!("compared {compared} parts of {} answers", questions.iter().map(Vec::len).sum::<usize>());
    compared
}

fn parse(text: &str) -> Said {
    let mut said = Said::default();
    let field = |name: &str| text.split_once(name).and_then(|(_, rest)| rest.split(';').next()).unwrap_or_default();
    said.code = field("status: ").trim().to_owned();
    said.flags = field(";; Flags: ").trim().to_owned();
    let mut authority = false;
    for line in text.lines() {
        match line {
            ";; AUTHORITY SECTION:" => authority = true,
            line if line.starts_with(';') || line.is_empty() || line.contains("opcode:") => {}
            // Names with other capitals are equal.
            line => {
                let section = if authority { &mut said.authority } else { &mut said.answer };
                section.insert(line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
            }
        }
    }
    said
}
