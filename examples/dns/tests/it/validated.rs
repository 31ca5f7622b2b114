//! Do validating resolvers accept signed answers, denials and delegations? Method: delv, with the
//! program's own key as the trust anchor.

use crate::support::{Server, asking, example_zone, have};
use std::fs;

#[test]
fn delv_accepts_every_kind_of_answer() {
    if !have(&["delv"]) {
        return;
    }
    for algorithm in ["ed25519", "p256", "rsa2048"] {
        let server = Server::start(&example_zone(), &["--sign", algorithm, "--set", "amplification=1000"]);
        let dir = tempfile::tempdir().expect("a directory");
        let anchor = dir.path().join("anchor");
        let key = server.said.iter().find(|line| line.contains(" IN DNSKEY ")).expect("the key is printed");
        // example.test. 3600 IN DNSKEY 257 3 15 key
        let fields: Vec<&str> = key.split_whitespace().collect();
        let text = format!(
            "trust-anchors {{ example.test. static-key {} {} {} \"{}\"; }};\n",
            fields[4], fields[5], fields[6], fields[7]
        );
        fs::write(&anchor, text).expect("written");
        let delv = |name: &str, rtype: &str| {
            let mut command = asking("delv", server.address);
            command.arg("-a").arg(&anchor).args(["+root=example.test", name, rtype]);
            let output = command.output().expect("delv starts");
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
        };
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
        let text = fs::read_to_string(&anchor).expect("text").replacen(fields[7], &other(fields[7]), 1);
        fs::write(&anchor, text).expect("written");
        let said = delv("www.example.test", "A");
        assert!(!said.contains("fully validated"), "{said}");
    }
}

/// Another key: one character differs.
fn other(key: &str) -> String {
    let at = key.len() / 2;
    let changed = if key.as_bytes()[at] == b'A' { "B" } else { "A" };
    format!("{}{changed}{}", &key[..at], &key[at + 1..])
}
