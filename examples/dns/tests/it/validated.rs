//! Do validating resolvers accept signed answers, denials and delegations? Method: delv, with the
//! program's own key as the trust anchor.

use crate::support::{Server, asking, example_zone, have};
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn delv_accepts_every_kind_of_answer() {
    if !have(&["delv"]) {
        return;
    }
    for algorithm in ["ed25519", "p256", "rsa2048"] {
        let server = Server::start(&example_zone(), &["--sign", algorithm, "--set", "amplification=1000"]);
        let dir = tempfile::tempdir().expect("a directory");
        let (anchor, key) = anchored(&server, dir.path());
        let delv = |name: &str, rtype: &str| delv(&server, &anchor, name, rtype);
        for (name, rtype, verdict) in [
            ("www", "A", "; fully validated"),
            ("@", "DNSKEY", "; fully validated"),
            ("@", "SOA", "; fully validated"),
            ("big", "TXT", "; fully validated"),
            ("unknown", "TYPE65280", "; fully validated"),
            ("chain", "A", "; fully validated"),
            ("any.name.star", "A", "; fully validated"),
            ("x.stars", "AAAA", "; fully validated"),
            ("_sip._tcp", "SRV", "; fully validated"),
            ("secure", "DS", "; fully validated"),
            ("www", "MX", "; negative response, fully validated"),
            ("any.name.star", "MX", "; negative response, fully validated"),
            ("and", "A", "; negative response, fully validated"),
            ("no", "A", "; negative response, fully validated"),
            ("no.such.name", "TXT", "; negative response, fully validated"),
            // The proof that a delegation has no DS records.
            ("child", "DS", "; negative response, fully validated"),
        ] {
            let name = if name == "@" { "example.test".to_owned() } else { format!("{name}.example.test") };
            let said = delv(&name, rtype);
            assert!(said.lines().any(|line| line == verdict), "{algorithm} {name} {rtype}: {said}");
        }
        // With another key as the anchor, nothing validates.
        let text = fs::read_to_string(&anchor).expect("text").replacen(&key, &other(&key), 1);
        fs::write(&anchor, text).expect("written");
        let said = delv("www.example.test", "A");
        assert!(!said.contains("fully validated"), "{said}");
    }
}

// Does it accept the types that `domain` does not read, with capitals in their names?
#[test]
fn delv_accepts_types_by_their_text() {
    if !have(&["delv"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("zone");
    let start = "$TTL 60\n@ SOA NS host 7 1 1 1 30\n@ NS NS\nNS A 192.0.2.1\n";
    let types = RARE.map(|(rtype, data)| format!("{rtype}.Rare {rtype} {data}\n"));
    fs::write(&file, start.to_owned() + &types.concat()).expect("written");
    let server = Server::start(&file, &["--sign", "ed25519", "--set", "amplification=1000"]);
    let (anchor, _) = anchored(&server, dir.path());
    for (rtype, _) in RARE {
        let said = delv(&server, &anchor, &format!("{rtype}.rare.example.test"), rtype);
        assert!(said.lines().any(|line| line == "; fully validated"), "{rtype}: {said}");
    }
}

/// Data of each type that `domain` does not read. Delv cannot ask for SIG.
const RARE: [(&str, &str); 25] = [
    ("AFSDB", "1 B.C"),
    ("X25", "311061700956"),
    ("ISDN", "150862028003217 004"),
    ("RT", "10 B.C"),
    ("NSAP", "0x47.0005.80.005a00.0000.0001.e133.ffffff000161.00"),
    ("KEY", "256 3 RSASHA1 AQNRU3mG7TVTO2BkR47usntb102uFJtugbo6BSGvgqt4AQ=="),
    ("PX", "10 B.C D.E"),
    ("LOC", "52 14 05.5 S 00 08 50.25 E 10.5m 20m 100m 2.5m"),
    ("NXT", "B.C A DHCID"),
    ("KX", "10 B.C"),
    ("CERT", "PGP 65535 8 AAIBY2/AuCccgg=="),
    ("APL", "1:192.168.32.0/21 !1:192.168.38.0/28 2:FF00:0:0:0:0:0:0:0/8"),
    ("DHCID", "AAIBY2/AuCccgoJbsaxcQc9TUapptP69lOjxfNuVAA2kjEA="),
    ("SMIMEA", "3 0 0 0123456789abcdef"),
    ("CSYNC", "66 3 A NS AAAA"),
    ("SPF", "\"v=spf1 -all\""),
    ("NID", "10 0014:4fff:ff20:ee64"),
    ("L32", "10 10.1.2.0"),
    ("L64", "10 2001:0DB8:1140:1000"),
    ("LP", "10 L64.B"),
    ("EUI48", "41-42-43-44-45-46"),
    ("EUI64", "41-42-43-44-45-46-47-48"),
    ("URI", "10 1 \"ftp://FTP1.example.com/public\""),
    ("AVC", "\"app-name:WOLFGANG\""),
    ("DLV", "1 RSASHA256 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"),
];

/// Writes the server's key into a file as the trust anchor. Returns the file and the key.
fn anchored(server: &Server, dir: &Path) -> (PathBuf, String) {
    let key = server.said.iter().find(|line| line.contains(" IN DNSKEY ")).expect("the key is printed");
    // example.test. 3600 IN DNSKEY 257 3 15 key
    let fields: Vec<&str> = key.split_whitespace().collect();
    let text = format!(
        "trust-anchors {{ example.test. static-key {} {} {} \"{}\"; }};\n",
        fields[4], fields[5], fields[6], fields[7]
    );
    let file = dir.join("anchor");
    fs::write(&file, text).expect("written");
    (file, fields[7].to_owned())
}

fn delv(server: &Server, anchor: &Path, name: &str, rtype: &str) -> String {
    let mut command = asking("delv", server.address);
    command.arg("-a").arg(anchor).args(["+root=example.test", name, rtype]);
    let output = command.output().expect("delv starts");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// Another key: one character differs.
fn other(key: &str) -> String {
    let at = key.len() / 2;
    let changed = if key.as_bytes()[at] == b'A' { "B" } else { "A" };
    format!("{}{changed}{}", &key[..at], &key[at + 1..])
}
