//! Does each server of the comparison sign on demand, with a new signature for each new name?
//! Method: kdig asks for two names below a wildcard, one of them twice, as the comparison does; the
//! signatures are compared. Do signed answers fit with the default settings?

use crate::peers::{example, knot, powerdns};
use crate::served::{A, essence, over_udp, question};
use crate::support::{Process, Server, example_zone, have, kdig};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

/// The algorithms: our name, the name of the others, and the number.
const ALGORITHMS: [(&str, &str, &str); 2] = [("ed25519", "ed25519", "15"), ("rsa2048", "rsasha256", "8")];

/// The signatures of the address of `name`, and of its denial, if the server sends one.
fn signatures(server: SocketAddr, name: &str, algorithm: &str) -> BTreeSet<String> {
    let question = (format!("{name}.star.example.test"), "A");
    let said = kdig(server, &["+dnssec", "+bufsize=1232", "+authority"], &[question]).concat();
    assert!(said.contains("192.0.2.42"), "{said}");
    let signed = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let signed: Vec<_> = signed.filter(|fields| fields.len() > 5 && fields[3] == "RRSIG").collect();
    assert!(!signed.is_empty() && signed.iter().all(|fields| fields[5] == algorithm), "{said}");
    // The signature may be split into several parts.
    signed.iter().map(|fields| fields[12..].concat()).collect()
}

fn assert_signs(server: SocketAddr, algorithm: &str) {
    let [first, second] = ["x1", "x2"].map(|name| signatures(server, name, algorithm));
    assert!(!second.is_subset(&first) && !first.is_subset(&second), "{server}: {first:?} {second:?}");
}

type Start = fn(&Path, Option<&str>) -> (Process, SocketAddr);

// Method: the same zone, two algorithms, both peers that sign, and this server.
#[test]
fn a_name_that_was_never_asked_for_takes_a_signature() {
    if !have(&["kdig", "knotd", "pdns_server", "pdnsutil"]) {
        return;
    }
    for (ours, peers, number) in ALGORITHMS {
        let server = Server::start(&example_zone(), &["--sign", ours, "--set", "amplification=1000"]);
        assert_signs(server.address, number);
        let starts: [Start; 2] = [|dir, algorithm| knot(dir, &example(), algorithm), powerdns];
        for start in starts {
            let dir = tempfile::tempdir().expect("a directory");
            let (_process, address) = start(dir.path(), Some(peers));
            assert_signs(address, number);
        }
    }
}

// With the defaults, does a client without a cookie get signed answers whole over UDP? Method: the
// first question from a network asks for the proof that a name does not exist, which has two
// signatures.
#[test]
fn with_the_defaults_signed_answers_fit() {
    for algorithm in ["ed25519", "p256", "rsa2048"] {
        let server = Server::start(&example_zone(), &["--sign", algorithm]);
        for (name, answers, authorities) in [("no.example.test", 0, 4), ("www.example.test", 3, 0)] {
            let mut message = question(1, name, A, Some(b""));
            let flags = message.len() - 4;
            message[flags] = 0x80; // DO
            let answer = over_udp(&server, &message);
            assert_eq!((essence(&answer), answer[9]), ((0, false, answers), authorities), "{algorithm}: {name}");
        }
    }
}
