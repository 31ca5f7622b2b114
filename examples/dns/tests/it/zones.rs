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

/// The data of the answer to each question, as hexadecimal digits with owner, TTL and type.
fn data(server: SocketAddr, questions: &[(String, &str)]) -> Vec<String> {
    let lines = |answer: &String| {
        let lines = answer.lines().filter(|line| !line.starts_with(';') && line.contains("\\#"));
        let mut lines: Vec<_> = lines.map(in_lower_case).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    kdig(server, &["+tcp", "+generic"], questions).iter().map(lines).collect()
}

/// A record with hexadecimal digits in lower case. This also puts the letters of names in lower
/// case, which does not change them.
fn in_lower_case(line: &str) -> String {
    let words: Vec<String> = line.split_whitespace().map(str::to_lowercase).collect();
    let (head, data) = words.split_at(words.len() - 1);
    let named = ["type12", "type15", "type18", "type21"].iter().any(|named| head.iter().any(|word| word == named));
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
    let (mut wrong, mut both, mut arguments) = (String::new(), Vec::new(), Vec::new());
    for ((zone, file), (asked, lines)) in zones.iter().zip(&features) {
        let nsd = accepts(Command::new("nsd-checkzone").arg(zone).arg(file));
        let knot = accepts(Command::new("knotc").arg("-c").arg(&config).args(["zone-check", zone]));
        let argument = format!("{zone}={}", file.display());
        let ours = accepts(Command::new(env!("CARGO_BIN_EXE_forebay-dns")).args(["--check", "--zone", &argument]));
        if !(nsd && knot) {
            println!("NSD {nsd}, Knot {knot}, this server {ours}: {lines:?}");
        } else if ours {
            both.push(((zone.clone(), file.clone()), asked, lines));
            arguments.extend(["--zone".to_owned(), argument]);
        } else {
            let _ = writeln!(wrong, "refused: {lines:?}");
        }
    }
    let served: Vec<_> = both.iter().map(|(zone, ..)| zone.clone()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let ours = Server::start(&example_zone(), &[&arguments[..], &["--set", "amplification=1000"]].concat());
    let (nsd, knot) = (nsd(dir.path(), &served), knot(dir.path(), &served, None));
    let questions: Vec<_> = both.iter().map(|((zone, _), asked, _)| question(zone, asked)).collect();
    let [ours, nsd, knot] = [ours.address, nsd.1, knot.1].map(|server| data(server, &questions));
    let mut same = 0;
    for (index, (.., lines)) in both.iter().enumerate() {
        let (ours, nsd, knot) = (&ours[index], &nsd[index], &knot[index]);
        assert!(!nsd.is_empty(), "{:?} has no answer: {lines:?}", questions[index]);
        same += usize::from(nsd == knot);
        if ours != nsd && (nsd == knot || ours != knot) {
            let _ = writeln!(wrong, "{lines:?}:\n  {ours}\n  NSD {nsd}\n  Knot {knot}");
        }
    }
    println!("{} files of {} are served by all, {same} with the same data by NSD and Knot", both.len(), features.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(both.len() > 75 && same > 75, "NSD and Knot agree on few");
}

/// The name and the type of a question.
fn question<'a>(zone: &str, asked: &'a str) -> (String, &'a str) {
    let (name, rtype) = asked.split_once(' ').expect("a name and a type");
    (if name == "@" { zone.to_owned() } else { format!("{name}.{zone}") }, rtype)
}
