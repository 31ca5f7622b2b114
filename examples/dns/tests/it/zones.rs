//! Is every zone file that both Knot and NSD accept accepted, with the same data?
//! Method: a file with one feature for each row; all that the two serve is asked for, and the data compared as bytes.

#![allow(clippy::print_stdout, reason = "a test says how much it has compared")]

use crate::peers::{knot_config, knot_of, nsd};
use crate::support::{Server, example_zone, have, output, path};
use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The first lines of files without an SOA record of their own: what a zone needs.
const START: &str = "$TTL 60\n@ SOA ns host 7 1 1 1 30\n@ NS ns\nns A 192.0.2.1\n";

/// What is asked for in each zone, and the lines that come after the first ones.
const FEATURES: [(&str, &str); 114] = [
    // Times with units.
    ("a A", "$TTL 1d\na A 192.0.2.2\n"),
    ("a A", "$TTL 1h30m\na A 192.0.2.2\n"),
    ("a A", "$TTL 1W2D\na A 192.0.2.2\n"),
    ("a A", "a 5m A 192.0.2.2\n"),
    ("a A", "a IN 2h A 192.0.2.2\n"),
    ("a A", "a 90S IN A 192.0.2.2\n"),
    ("a A", "a 0 A 192.0.2.2\n"),
    ("@ SOA", "@ 60 SOA ns host 7 1h 15M 2w 1d12h\n@ 60 NS ns\nns 60 A 192.0.2.1\n"),
    ("@ SOA", "@ 60 SOA @ a\\.b.c ( 7 ; number\n 1h ; refresh\n 15m\n 2W 90s )\n@ 60 NS ns\nns 60 A 192.0.2.1"),
    // The form of a file.
    ("a A", "a A 192.0.2.2"),
    ("a A", "a A 192.0.2.2 ; the end"),
    ("a A", "a\tIN\tA\t192.0.2.2\n"),
    ("a A", "a in a 192.0.2.2\n"),
    ("a A", "a IN 60 A 192.0.2.2\n"),
    ("a A", "a 60 IN A 192.0.2.2\n"),
    ("a A", "; a remark\n\n   \na A 192.0.2.2\n"),
    ("a AAAA", "a A 192.0.2.2\n  AAAA 2001:db8::1\n"),
    ("a AAAA", "a A 192.0.2.2\n\n; between\n\tAAAA 2001:db8::1\n"),
    ("a TXT", "a TXT ( one\n two ; a remark\n three )\n"),
    ("a TXT", "a ( TXT\n one ) two\n"),
    ("a MX", "a MX (10\nb)\n"),
    ("a.b A", "$ORIGIN b.{zone}.\na A 192.0.2.2\n"),
    ("b A", "$ORIGIN b.{zone}.\n@ A 192.0.2.2\n"),
    ("a A", "$INCLUDE {file}.included\n"),
    ("a.b A", "$INCLUDE {file}.included b.{zone}.\n"),
    ("a A", "$ttl 70\na A 192.0.2.2\n"),
    ("a A", "a.{zone}. A 192.0.2.2\n"),
    // Names.
    ("a MX", "a MX 10 @\n"),
    ("a NS", "b CNAME @\na CNAME b\n"),
    ("a RP", "a RP @ @\n"),
    ("a MX", "a MX 10 .\n"),
    ("a\\.b A", "a\\.b A 192.0.2.2\n"),
    ("a\\032b A", "a\\032b A 192.0.2.2\n"),
    ("a A", "\\097 A 192.0.2.2\n"),
    ("a CNAME", "a CNAME \\@\n"),
    ("a PTR", "a PTR B.C\n"),
    ("_a._b SRV", "_a._b SRV 1 2 3 @\n"),
    ("x A", "* A 192.0.2.2\n"),
    ("a.*.m A", "a.*.m A 192.0.2.2\n"),
    ("1 A", "1 A 192.0.2.2\n"),
    ("in A", "in A 192.0.2.2\n"),
    ("a A", "A A 192.0.2.2\n"),
    // Text.
    ("a TXT", "a TXT \"one two\" three\n"),
    ("a TXT", "a TXT \"\"\n"),
    ("a TXT", "a TXT \"a \\\"quote\\\" and a \\\\\"\n"),
    ("a TXT", "a TXT \"\\001\\255; ( )\"\n"),
    ("a TXT", "a TXT \"caf\\195\\169\"\n"),
    ("a TXT", "a TXT \"over\\010lines\"\n"),
    ("a TXT", "a TXT \"@\" a@b\n"),
    ("a TXT", "a TXT one\\ two\n"),
    ("a TXT", "a TXT a=b;c\n"),
    ("a HINFO", "a HINFO \"a cpu\" os\n"),
    // Record types by name.
    ("a A", "a TYPE1 192.0.2.2\n"),
    ("a MINFO", "a MINFO b c.example.\n"),
    ("a NAPTR", "a NAPTR 1 2 \"u\" \"E2U+sip\" \"!^.*$!sip:a@b!\" .\n"),
    ("a NAPTR", "a NAPTR 1 2 u \"\" \"\" b\n"),
    ("a CAA", "a CAA 128 issue \"ca.example; a=b\"\n"),
    ("a SSHFP", "a SSHFP 4 2 ( 0123456789abcdef0123456789abcdef\n 0123456789abcdef0123456789abcdef )\n"),
    ("a TLSA", "a TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789ABCDEF0123456789ABCDEF\n"),
    ("a IPSECKEY", "a IPSECKEY 10 1 2 192.0.2.38 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("a IPSECKEY", "a IPSECKEY 10 3 2 b AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("a OPENPGPKEY", "a OPENPGPKEY AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("a DS", "a NS b\na DS 1 8 2 ( 0123456789abcdef0123456789abcdef 0123456789abcdef0123456789abcdef )\n"),
    ("a DS", "a NS b\na DS 1 ECDSAP256SHA256 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"),
    ("@ DNSKEY", "@ DNSKEY 256 3 rsasha256 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("@ CDS", "@ CDS 0 0 0 00\n"),
    ("@ CDNSKEY", "@ CDNSKEY 0 3 0 AA==\n"),
    (
        "@ DNSKEY",
        "@ DNSKEY 256 3 13 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4\n",
    ),
    ("@ ZONEMD", "@ ZONEMD 7 1 241 0123456789abcdef0123456789abcdef\n"),
    ("a SVCB", "a SVCB 1 b alpn=\"h2,h3\" port=53 ipv4hint=192.0.2.1\n"),
    ("a SVCB", "a SVCB 1 . mandatory=alpn alpn=h2 key667=hello\n"),
    ("a HTTPS", "a HTTPS 0 b\n"),
    ("a HTTPS", "a HTTPS 1 . ech=AEP+DQA/ ipv6hint=2001:db8::1 no-default-alpn alpn=h3\n"),
    ("a AFSDB", "a AFSDB 1 B\n"),
    ("a AFSDB", "a AFSDB 1 @\n"),
    ("a RT", "a RT 10 b.Example.\n"),
    ("a KX", "a KX 10 b\n"),
    ("a LP", "a LP 10 b\n"),
    ("a KEY", "a KEY 256 3 5 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("a KEY", "a KEY 256 3 RSASHA1 ( AQNRU3mG7TVTO2BkR47usntb\n 102uFJtugbo6BSGvgqt4AQ== )\n"),
    ("a LOC", "a LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m\n"),
    ("a LOC", "a LOC 42 21 54 N 71 06 18 W -24m 30m\n"),
    ("a LOC", "a LOC 32 7 19 S 116 2 25 E 10m\n"),
    ("a LOC", "a LOC 42 N 71 W 0\n"),
    ("a LOC", "a LOC 90 0 0.001 N 180 E 0\n"),
    ("a LOC", "a LOC 12 3 4.5 N 4 E 123.45m 12.34m 100m 99999.99m\n"),
    ("a LOC", "a LOC 1 2 3.4 S 5 6 7.891 W 42849672.95m 90000000m\n"),
    ("a CERT", "a CERT PGP 0 0 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ==\n"),
    ("a CERT", "a CERT 1 2 RSASHA256 AQNR U3mG\n"),
    ("a URI", "a URI 10 1 \"https://example.net/a b\"\n"),
    ("a CSYNC", "@ CSYNC 7 3 A NS AAAA\na CSYNC 66 0 TYPE1234 CAA\n"),
    ("@ CSYNC", "@ CSYNC 7 0\n"),
    ("a APL", "a APL 1:192.0.2.0/24 !1:192.0.2.64/28 2:2001:db8::/32\n"),
    ("a APL", "a APL 1:0.0.0.0/0 2:::/0\n"),
    ("a APL", "a APL\n"),
    ("a APL", "a APL 1:192.0.2.1/24\n"),
    ("a SMIMEA", "a SMIMEA 3 0 1 0123456789abcdef 0123456789abcdef 0123456789abcdef0123456789abcdef\n"),
    ("a DHCID", "a DHCID ( AAIBY2/AuCccgoJbsaxcQc9TUapptP69\n lOjxfNuVAA2kjEA= )\n"),
    ("a EUI48", "a EUI48 00-00-5e-00-53-2A\n"),
    ("a EUI64", "a EUI64 00-00-5e-ef-10-00-00-2a\n"),
    ("a NID", "a NID 10 0014:4fff:ff20:ee64\n"),
    ("a L32", "a L32 10 10.1.2.0\n"),
    ("a L64", "a L64 10 2001:0DB8:1140:1000\n"),
    ("a SPF", "a SPF \"v=spf1 -all\" two\n"),
    // Data in hexadecimal digits (RFC 3597).
    ("a TYPE65280", "a TYPE65280 \\# 4 0a000001\n"),
    ("a TYPE65280", "a TYPE65280 \\# 4 0a 00 ( 00\n 01 )\n"),
    ("a TYPE65280", "a TYPE65280 \\# 0\n"),
    ("a A", "a A \\# 4 0A000001\n"),
    ("a A", "a TYPE1 \\# 4 0a000001\n"),
    ("a MX", "a MX \\# 8 000a 04 4d61494c 00 \n"),
    ("a LOC", "a LOC \\# 16 00121613 8b3567e8 80ff50e0 00989680\n"),
    ("a AFSDB", "a AFSDB \\# 5 0001 014200\n"),
    // Sets.
    ("a A", "a 60 A 192.0.2.2\na 60 A 192.0.2.3\na 60 A 192.0.2.2\n"),
    ("a TXT", "a TXT x\na TXT X\n"),
];

/// Whether a program accepts a file; what it said is part of a failure.
fn accepts(command: &mut Command) -> bool {
    command.env("PATH", path()).output().expect("it starts").status.success()
}

/// The data of the answer to each question, as hexadecimal digits with owner, TTL and type.
fn data(server: SocketAddr, questions: &[(String, &str)]) -> Vec<String> {
    let mut command = Command::new("kdig");
    command.arg(format!("@{}", server.ip())).args(["-p", &server.port().to_string(), "+tcp", "+timeout=10"]);
    command.args(["+noall", "+comments", "+header", "+answer", "+generic"]);
    command.args(questions.iter().flat_map(|(name, rtype)| [name.as_str(), rtype]));
    let text = output(&mut command);
    let answers = text.split(";; ->>HEADER<<- ").skip(1);
    let lines = |answer: &str| {
        let lines = answer.lines().filter(|line| !line.starts_with(';') && line.contains("\\#"));
        let mut lines: Vec<_> = lines.map(in_lower_case).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    let answers: Vec<String> = answers.map(lines).collect();
    assert_eq!(answers.len(), questions.len(), "{server}: {text}");
    answers
}

/// A record with its hexadecimal digits in lower case, and so the letters of names: these are the same in capitals.
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

/// Writes the zone of a row and what it includes.
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
    let zones: Vec<_> =
        FEATURES.iter().enumerate().map(|(index, (_, lines))| write(dir.path(), index, lines)).collect();
    let (_, config) = knot_config(dir.path(), &zones, None);
    let (mut wrong, mut both, mut arguments) = (String::new(), Vec::new(), Vec::new());
    for ((zone, file), (asked, lines)) in zones.iter().zip(FEATURES) {
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
    let (nsd, knot) = (nsd(dir.path(), &served), knot_of(dir.path(), &served));
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
    println!("{} files of {} are served by all, {same} with the same data by NSD and Knot", both.len(), FEATURES.len());
    assert!(wrong.is_empty(), "{wrong}");
    assert!(both.len() > 100 && same > 100, "NSD and Knot agree on few");
}

/// The name and the type asked for.
fn question<'a>(zone: &str, asked: &'a str) -> (String, &'a str) {
    let (name, rtype) = asked.split_once(' ').expect("a name and a type");
    (if name == "@" { zone.to_owned() } else { format!("{name}.{zone}") }, rtype)
}
