//! Does the program answer as NSD and Knot do, where these two agree?
//! Method: the same zone file in all three, the same questions to each by kdig; codes, flags, answers and authorities, with their TTLs.

#![allow(clippy::print_stdout, reason = "a test says how much it has compared")]

use crate::nasty::Nasty;
use crate::peers::{knot_of, nsd};
use crate::support::{Server, example_zone, have, output};
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

const NAMES: [&str; 50] = [
    "",
    "ns1.",
    "mail.",
    "www.",
    "WWW.",
    "alias.",
    "chain.",
    "outside.",
    "dangling.",
    "tostar.",
    "tochild.",
    "star.",
    "a.star.",
    "b.a.star.",
    "*.star.",
    "here.star.",
    "not.here.star.",
    "stars.",
    "x.stars.",
    "tcp.",
    "_tcp.",
    "_sip._tcp.",
    "_udp._tcp.",
    "sip.",
    "and.",
    "er.and.",
    "deep.er.and.",
    "deeper.er.and.",
    "ptr.",
    "unknown.",
    "child.",
    "ns.child.",
    "www.child.",
    "a.b.c.child.",
    "away.",
    "www.away.",
    "secure.",
    "ns.secure.",
    "www.secure.",
    "big.",
    "mixed.case.",
    "MIXED.case.",
    "case.",
    "no.",
    "no.such.name.",
    "www.www.",
    "x.alias.",
    "own.",
    "no-such.",
    "a.very.long.name.with.many.labels.of.which.none.is.in.the.zone.",
];

const TYPES: [&str; 12] = ["A", "AAAA", "NS", "SOA", "MX", "TXT", "CNAME", "SRV", "CAA", "PTR", "DS", "TYPE65280"];

const WAYS: [&[&str]; 5] = [
    &["+noedns", "+ignore"],
    &["+edns", "+ignore"],
    &["+dnssec", "+ignore"],
    &["+bufsize=4096", "+ignore", "+norecurse", "+cdflag"],
    &["+tcp"],
];

/// What is compared of an answer.
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
        NAMES.iter().flat_map(|name| TYPES.map(|rtype| (format!("{name}example.test"), rtype))).collect();
    let compared = compare(&example_zone(), &WAYS.map(|_| questions.clone()));
    assert!(compared > 10_000, "NSD and Knot agree on {compared} parts only");
}

// The same of a generated zone, in which wildcards, empty non-terminals, delegations and aliases lie above, below and beside
// one another. FOREBAY_DNS_QUESTIONS asks more questions than 750.
#[test]
fn answers_of_a_nasty_zone_are_those_of_nsd_and_knot() {
    if !have(&["kdig", "nsd", "knotd"]) {
        return;
    }
    let count = std::env::var("FOREBAY_DNS_QUESTIONS").map_or(750, |count| count.parse().expect("a number"));
    // As many zones as make each answer a few dozen questions of each way.
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

// Are messages with a TSIG record and without a question answered with the same code, and is the error of the record the same?
#[test]
fn odd_messages_have_the_answers_of_nsd_and_knot() {
    if !have(&["nsd", "knotd"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let ours = Server::start(&example_zone(), &["--set", "amplification=1000"]);
    let zones = [("example.test".to_owned(), example_zone())];
    let (nsd, knot) = (nsd(dir.path(), &zones), knot_of(dir.path(), &zones));
    let question = b"\x03www\x07example\x04test\0\0\x01\0\x01";
    let opt = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";
    let head = b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x3d\x0bhmac-sha256\0\0\0\x65\0\0\0\x01\x2c\0\x20";
    let tsig = [&head[..], &[7; 32], b"\x12\x34\0\0\0\0"].concat();
    let cut = [&head[..14], b"\0\x02ab"].concat();
    for (counts, rest, expected) in [
        (b"\0\x01\0\0\0\0\0\x01", [question, &tsig[..]].concat(), (9, 17)),
        (b"\0\x01\0\0\0\0\0\x02", [question, &opt[..], &tsig].concat(), (9, 17)),
        (b"\0\x01\0\0\0\0\0\x02", [question, &tsig[..], opt].concat(), (1, 0)),
        (b"\0\x01\0\0\0\0\0\x01", [question, &cut[..]].concat(), (1, 0)),
        (b"\0\0\0\0\0\0\0\x01", opt.to_vec(), (1, 0)),
    ] {
        let message = [b"\x12\x34\0\0", &counts[..], &rest].concat();
        let said = [ours.address, nsd.1, knot.1].map(|server| {
            let socket = ours.socket();
            socket.connect(server).expect("a local address");
            socket.send(&message).expect("sent");
            let mut answer = [0; 512];
            let length = socket.recv(&mut answer).expect("an answer");
            let code = answer[3] & 15;
            // The record of an unsigned answer ends with its error and no other data.
            (code, if code == 9 { answer[length - 3] } else { 0 })
        });
        println!("{said:?} {expected:?}");
        assert!(said[0] == expected && (said[1] != said[2] || said[1] == said[0]), "{said:?} {rest:x?}");
    }
}

/// Asks each server the questions of each way; the number of parts on which NSD and Knot agree, as this server must.
fn compare(zone: &Path, questions: &[Vec<(String, &str)>; WAYS.len()]) -> usize {
    let dir = tempfile::tempdir().expect("a directory");
    let zones = [("example.test".to_owned(), zone.to_owned())];
    // Every answer, also where hundreds come from one client in a second.
    let ours = Server::start(zone, &["--set", "amplification=1000"]);
    let (nsd, knot) = (nsd(dir.path(), &zones), knot_of(dir.path(), &zones));
    let mut differences = Vec::new();
    let mut compared = 0;
    for (way, questions) in WAYS.iter().zip(questions) {
        let [ours, nsd, knot] = [ours.address, nsd.1, knot.1].map(|server| ask(server, way, questions));
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
            // What is not whole is asked for again, so it does not matter which part it is.
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

/// Asks all questions in one run of kdig.
fn ask(server: SocketAddr, way: &[&str], questions: &[(String, &str)]) -> Vec<Said> {
    let mut command = Command::new("kdig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string()]).args(way);
    command.args(["+noall", "+comments", "+header", "+answer", "+authority", "+nocrypto", "+timeout=10"]);
    command.args(questions.iter().flat_map(|(name, rtype)| [name.as_str(), rtype]));
    let text = output(&mut command);
    let answers: Vec<Said> = text.split(";; ->>HEADER<<- ").skip(1).map(parse).collect();
    assert_eq!(answers.len(), questions.len(), "{server} {way:?}: {text}");
    answers
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
            // Names are the same in capitals.
            line => {
                let section = if authority { &mut said.authority } else { &mut said.answer };
                section.insert(line.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase());
            }
        }
    }
    said
}
