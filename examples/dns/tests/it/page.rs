//! Are the statements of the README true? Method: start a server as it says and ask its questions;
//! look up its arguments in the help.

use crate::support::{Server, example_zone, have, output};
use std::process::Command;

const PAGE: &str = include_str!("../../README.md");

/// The answers to the lines of the page that begin with `dig`: to those that ask for signatures, or
/// to the others.
fn asked(server: &Server, signed: bool) -> Vec<String> {
    let port = server.address.port().to_string();
    PAGE.lines()
        .filter(|line| line.starts_with("dig ") && line.ends_with("+dnssec") == signed)
        .map(|line| output(Command::new("dig").args(line.replace("5300", &port).split(' ').skip(1))))
        .collect()
}

#[test]
fn the_questions_have_the_answers_that_it_tells() {
    if !have(&["dig"]) {
        return;
    }
    let server = Server::start(&example_zone(), &[]);
    let quoted = server.said.last().expect("a line of the zone");
    assert!(PAGE.contains(&format!("\n{quoted}\nlistening on udp and tcp 127.0.0.1:5300, admin http")), "{quoted}");
    let answers = asked(&server, false);
    assert_eq!(answers.len(), 3);
    for (answer, expected) in answers.iter().zip(["192.0.2.81", "any name below star", "192.0.2.153"]) {
        assert!(answer.contains("status: NOERROR") && answer.contains(expected), "{answer}");
    }
    let server = Server::start(&example_zone(), &["--sign", "ed25519"]);
    let answers = asked(&server, true);
    assert_eq!(answers.len(), 2);
    for (answer, expected) in answers.iter().zip(["RRSIG\tA 15", "RRSIG NSEC TYPE128"]) {
        assert!(answer.contains("status: NOERROR") && answer.contains(expected), "{answer}");
    }
}

#[test]
fn its_arguments_are_those_of_the_help() {
    let help = output(Command::new(env!("CARGO_BIN_EXE_forebay-dns")).arg("--help"));
    let unknown: Vec<_> = flags(PAGE).filter(|flag| !flags(&help).any(|known| known == *flag)).collect();
    // The remaining flags are cargo's.
    assert_eq!(unknown, ["--release", "--release", "--release", "--bench", "--bench"]);
    let missing: Vec<_> = flags(&help).filter(|flag| !flags(PAGE).any(|known| known == *flag)).collect();
    assert_eq!(missing, ["--version"]);
    // The defaults that the page states.
    for (flag, default) in
        [("--payload", "1,232"), ("--connections", "128"), ("--signatures", "65,536"), ("--listen", "127.0.0.1:5300")]
    {
        let after = help.split_once(&format!("{flag} ")).expect("it is there").1;
        let stated = after.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).expect("a default").0;
        assert_eq!(default.replace(',', ""), stated, "{flag}");
        assert!(PAGE.contains(default), "{flag}");
    }
}

/// The words of `text` that are flags.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    words.filter(|word| word.starts_with("--") && word.contains(char::is_alphabetic))
}
