//! Are answers complete? Long answers for clients with few questions, delegations with all servers,
//! and answers that name the server. Method: single messages, whose bytes are checked.

use crate::served::{A, TXT, essence, over_udp, question};
use crate::support::{Server, example_zone, have, kdig};
use std::fs;
use tempfile::NamedTempFile;

// Are all answers whole for a client with a normal number of questions, and some cut for one with
// far too many?
#[test]
fn long_answers_are_cut_only_for_those_that_ask_for_many() {
    let server = Server::start(&example_zone(), &[]);
    let message = question(9, "big.example.test", TXT, Some(b""));
    let answer = over_udp(&server, &message);
    let cut = |questions: usize| (0..questions).filter(|_| essence(&over_udp(&server, &message)).1).count();
    // Half of the saved credit. Each question also pays for a part of its answer.
    assert_eq!(cut(8 * 65_536 / 2 / answer.len()), 0);
    assert!(cut(10 * 8 * 65_536 / answer.len()) > 0);
}

// Does the server tell its name and version, if they are configured and a client asks?
#[test]
fn identity_and_version_are_told_where_they_are_configured() {
    let asked = |server: &Server, name: &str, class: u8, options: Option<&[u8]>| {
        let mut message = question(7, name, TXT, options);
        let end = 12 + name.len() + 2 + 4;
        message[end - 1] = class;
        over_udp(server, &message)
    };
    let server = Server::start(&example_zone(), &["--nsid", "east-1", "--version-text", "one"]);
    let nsid = b"\0\x03\0\x06east-1";
    let refused = |answer: &[u8]| answer[3] & 15 == 5;
    for name in ["version.bind", "VERSION.server"] {
        let answer = asked(&server, name, 3, Some(b"\0\x03\0\0"));
        assert!(answer.windows(12).any(|it| it == b"\0\x10\0\x03\0\0\0\0\0\x04\x03o"), "{answer:?}");
        assert!(answer.ends_with(nsid), "{answer:?}");
    }
    assert!(refused(&asked(&server, "version.bind", 1, None)) && refused(&asked(&server, "id.server", 3, None)));
    let with = |options: &[u8]| over_udp(&server, &question(7, "www.example.test", A, Some(options)));
    assert!(with(b"\0\x03\0\0").ends_with(nsid) && !with(b"").ends_with(nsid));
    // Together with a cookie, in any order.
    let both = with(b"\0\x03\0\0\0\x0a\0\x08abcdefgh");
    assert!(both.ends_with(nsid) && both.windows(12).any(|it| it == b"\0\x0a\0\x18abcdefgh"), "{both:?}");
    let silent = Server::start(&example_zone(), &[]);
    let answer = asked(&silent, "version.bind", 3, Some(b"\0\x03\0\0"));
    assert!(refused(&answer) && answer.ends_with(b"\0\0"), "{answer:?}");
}

// If a delegation has so many servers that pointers cannot reach all, does it have all addresses?
#[test]
fn a_delegation_may_have_many_servers() {
    if !have(&["kdig"]) {
        return;
    }
    let file = NamedTempFile::new().expect("a file");
    let servers = (0..1_200).map(|n| format!("a NS s{n}.a\ns{n}.a A 192.0.2.{}\n", n % 250)).collect::<String>();
    fs::write(file.path(), format!("@ 60 SOA ns host 7 1 1 1 30\n@ 60 NS ns\n{servers}")).expect("written");
    let server = Server::start(file.path(), &[]);
    let answers = kdig(server.address, &["+tcp", "+additional"], &[("b.a.example.test".to_owned(), "A")]);
    let addresses = answers[0].lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let addresses: Vec<_> = addresses.filter(|line| line.contains(" IN A 192.0.2.")).collect();
    assert_eq!(addresses.len(), 1_200, "{}", answers[0]);
    assert!((0..1_200).all(|n| addresses.contains(&format!("s{n}.a.example.test. 60 IN A 192.0.2.{}", n % 250))));
}
