//! If Knot and NSD accept a zone file, does this server accept it with the same data? Method: a
//! file for each feature in `zones.txt`. All records that the two serve are asked for, and their
//! data is compared as bytes.

#![allow(clippy::print_stdout, reason = "a test says how much it has compared")]

use crate::peers::{knot, knot_config, nsd};
use crate::support::{Server, example_zone, have, kdig, path};
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first lines of a file without its own SOA record: the records that a zone needs.
const START: &str = "$TTL 60\n@ SOA ns host 7 1 1 1 30\n@ NS ns\nns A 192.0.2.1\n";

/// Blocks of lines that follow the first ones. Above each is the question to ask.
const FEATURES: &str = include_str!("zones.txt");

/// The types whose data is mostly names. A server may put the names into lower case.
const NAMED: [&str; 7] = ["type12", "type15", "type18", "type21", "type26", "type30", "type36"];

/// The question of each zone, and its lines. Every second file ends without a newline.
fn features() -> Vec<(&'static str, String)> {
    let lines = |text: &str| text.lines().filter(|line| !line.starts_with("# ")).collect::<Vec<_>>().join("\n");
    let blocks = FEATURES.split("\n=== ").skip(1).map(|block| block.split_once('\n').expect("a question and lines"));
    let end = |index| if index % 2 == 0 { "\n" } else { "" };
    let blocks = blocks.enumerate().map(|(index, (asked, text))| (asked, lines(text) + end(index)));
    // Sets of many records, nearly as many as fit into a message.
    let many = |count, line: &dyn Fn(u32) -> String| (0..count).map(line).collect::<String>();
    let texts = many(320, &|number| format!("a TXT {number:0185}\n"));
    let servers = many(1_200, &|number| format!("@ NS s{number}.a\n"));
    blocks.chain([("a TXT", texts), ("@ NS", servers)]).collect()
}

/// Whether a program accepts a file. Its output appears if the test fails.
fn accepts(command: &mut Command) -> bool {
    command.env("PATH", path()).output().expect("it starts").status.success()
}

/// A zone that this server and at least one of the others accept.
struct Served<'a> {
    question: (String, &'a str),
    /// Its place among the features.
    place: usize,
    argument: String,
    nsd: bool,
    knot: bool,
}

/// The data of each zone's answer, as hexadecimal digits with owner, TTL and type. `None` if the
/// server does not have the zone.
fn data(server: SocketAddr, zones: &[Served<'_>], has: fn(&Served<'_>) -> bool) -> Vec<Option<String>> {
    let lines = |answer: &String| {
        let lines = answer.lines().filter(|line| !line.starts_with(';') && line.contains("\\#"));
        let mut lines: Vec<_> = lines.map(in_lower_case).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let questions: Vec<_> = zones.iter().filter(|zone| has(zone)).map(|zone| zone.question.clone()).collect();
    let answers = kdig(server, &["+tcp", "+generic"], &questions);
    let mut answers = answers.iter().map(lines);
    zones.iter().map(|zone| has(zone).then(|| answers.next()).flatten()).collect()
}

/// A record with hexadecimal digits in lower case. This also puts the letters of names in lower
/// case, which does not change them.
fn in_lower_case(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    let (head, data) = words.split_at(words.len() - 1);
    let named = NAMED.iter().any(|named| head.iter().any(|word| word == named));
    let byte = |pair: &[u8]| {
        let byte = u8::from_str_radix(str::from_utf8(pair).expect("text"), 16).expect("digits");
        format!("{:02x}", if named { byte.to_ascii_lowercase() } else { byte })
    };
    let digits: String = data[0].as_bytes().chunks(2).map(byte).collect();
    format!("{} {digits}", head.join(" "))
}

/// Writes the zone of a feature, and the files that it includes.
fn write(dir: &Path, index: usize, lines: &str) -> (String, PathBuf) {
    let zone = format!("z{index}.test");
    let file = dir.join(&zone);
    let start = if lines.contains("SOA") { "" } else { START };
    let lines = lines.replace("{zone}", &zone).replace("{file}", &file.display().to_string());
    fs::write(&file, format!("{start}{lines}")).expect("written");
    fs::write(dir.join(format!("{zone}.included")), "a A 192.0.2.2\n").expect("written");
    (zone, file)
}

#[test]
fn zone_files_are_read_as_by_knot_and_nsd() {
    if !have(&["kdig", "nsd", "nsd-checkzone", "knotd", "knotc"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let features = features();
    let zones: Vec<_> =
        features.iter().enumerate().map(|(index, (_, lines))| write(dir.path(), index, lines)).collect();
    let (_, config) = knot_config(dir.path(), &zones, None);
    let (mut wrong, mut served) = (String::new(), Vec::new());
    for (place, ((zone, file), (asked, lines))) in zones.iter().zip(&features).enumerate() {
        let nsd = accepts(Command::new("nsd-checkzone").arg(zone).arg(file));
        let knot = accepts(Command::new("knotc").arg("-c").arg(&config).args(["zone-check", zone]));
        let argument = format!("{zone}={}", file.display());
        let ours = accepts(Command::new(env!("CARGO_BIN_EXE_forebay-dns")).args(["--check", "--zone", &argument]));
        if !(nsd && knot) {
            println!("NSD {nsd}, Knot {knot}, this server {ours}: {lines:?}");
        }
        if ours && (nsd || knot) {
            served.push(Served { question: question(zone, asked), place, argument, nsd, knot });
        } else if nsd && knot {
            let _ = writeln!(wrong, "refused: {lines:?}");
        }
    }
    let arguments: Vec<&str> = served.iter().flat_map(|zone| ["--zone", &zone.argument]).collect();
    let ours = Server::start(&example_zone(), &[&arguments[..], &["--set", "amplification=1000"]].concat());
    let of = |accepts: fn(&Served<'_>) -> bool| -> Vec<_> {
        served.iter().filter(|zone| accepts(zone)).map(|zone| zones[zone.place].clone()).collect()
    };
    let (nsd, knot) = (nsd(dir.path(), &of(|zone| zone.nsd)), knot(dir.path(), &of(|zone| zone.knot), None));
    let [ours, nsd, knot] = [
        data(ours.address, &served, |_| true),
        data(nsd.1, &served, |zone| zone.nsd),
        data(knot.1, &served, |zone| zone.knot),
    ];
    let (mut both, mut same) = (0, 0);
    for (index, zone) in served.iter().enumerate() {
        let (ours, nsd, knot, lines) = (&ours[index], &nsd[index], &knot[index], &features[zone.place].1);
        assert_ne!(nsd.as_deref(), Some(""), "{:?} has no answer: {lines:?}", zone.question);
        both += usize::from(zone.nsd && zone.knot);
        same += usize::from(nsd == knot);
        if ours != nsd && ours != knot {
            let _ = writeln!(wrong, "{lines:?}:\n  {ours:?}\n  NSD {nsd:?}\n  Knot {knot:?}");
        }
    }
    let count = features.len();
    println!("{} files of {count} are served, {both} by all, {same} with the same data by NSD and Knot", served.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(both > 175 && same > 170, "NSD and Knot agree on few");
}

/// The name and the type of a question.
fn question<'a>(zone: &str, asked: &'a str) -> (String, &'a str) {
    let (name, rtype) = asked.split_once(' ').expect("a name and a type");
    (if name == "@" { zone.to_owned() } else { format!("{name}.{zone}") }, rtype)
}
