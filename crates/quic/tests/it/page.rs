//! Are the statements of the README true? Method: look up its arguments in the help; each test
//! makes its certificate with the README's command.

use crate::support::PAGE;
use std::process::Command;

#[test]
fn its_arguments_are_those_of_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_forebay-quic")).arg("--help").output().expect("the program starts");
    let help = String::from_utf8(help.stdout).expect("text");
    // Those of the door are in the help of the example.
    let of_door = ["--example", "--quic", "--reply-max", "--request-max", "--alpn"];
    let is_known = |flag: &&str| flags(&help).any(|known| known == *flag) || of_door.contains(flag);
    let unknown: Vec<_> = flags(PAGE).filter(|flag| !is_known(flag)).collect();
    assert_eq!(unknown, ["--release", "--release", "--release", "--bench"], "the others are cargo's");
    let missing: Vec<_> = flags(&help).filter(|flag| !flags(PAGE).any(|known| known == *flag)).collect();
    assert!(missing.iter().all(|flag| ["--help", "--version"].contains(flag)), "{missing:?}");
    for flag in ["--connections", "--connections-of-network", "--idle", "--retry-from", "--mtu"] {
        let after = help.split_once(&format!("{flag} ")).expect("it is there").1;
        let stated = after.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).expect("a default").0;
        assert!(PAGE.replace(',', "").contains(&format!("{flag} {stated}")), "{flag} {stated}");
    }
}

/// The words of `text` that are flags.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '-');
    words.filter(|word| word.starts_with("--") && word.contains(char::is_alphabetic))
}
