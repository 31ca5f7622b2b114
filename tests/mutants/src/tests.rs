use crate::build::{Binary, Tree, write};
use crate::draw::draw;
use crate::judge::{self, Verdict};
use crate::places::{self, Kind, Place};
use crate::rewrite::rewrite;
use crate::{found, report};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;
use std::{env, fs, process};

/// The places of `body` as that of a function, and the text of the file.
fn places_of(body: &str) -> (String, Vec<Place>) {
    let text = format!("const LIMIT: u64 = 7; fn f() {{ {body} }}");
    (text.clone(), places_in(&text))
}

fn places_in(text: &str) -> Vec<Place> {
    let file = syn::parse_file(text).unwrap();
    places::places(&file, "src/a.rs", 0, &places::numbers(text).collect(), &mut BTreeMap::new())
}

// Does each kind of mutant get the switch that it should, and does a reader see the change?
#[test]
fn each_kind_is_rewritten() {
    for (kind, nth, body, switched, shown) in [
        (Kind::Turned, 0, "a < b", "either(0, &(a ), &( b), |a, b| a < b, |a, b| a <= b)", "a <= b"),
        (Kind::Turned, 1, "a < b", "either(0, &(a ), &( b), |a, b| a < b, |a, b| a > b)", "a > b"),
        (Kind::Turned, 0, "a >= b", "either(0, &(a ), &( b), |a, b| a >= b, |a, b| a > b)", "a > b"),
        (Kind::Turned, 0, "a != b", "either(0, &(a ), &( b), |a, b| a != b, |a, b| a == b)", "a == b"),
        (Kind::TenTimes, 0, "g(5)", "g(ten_times(0, 5))", "g((5 * 10))"),
        (Kind::TenTimes, 0, "g(a::LIMIT)", "g(ten_times(0, a::LIMIT))", "g((a::LIMIT * 10))"),
        (Kind::PlusOne, 0, "g(0)", "g(plus_one(0, 0))", "g((0 + 1))"),
        (Kind::PlusOne, 0, "a - b", "plus_one(0, a - b)", "(a - b + 1)"),
        (Kind::Dropped, 0, "if a || b { g() }", "if !on(0) && (a || b) { g() }", "if false { g() }"),
        (
            Kind::Dropped,
            1,
            "if a { g() } else { h() }",
            "if on(0) || (a) { g() } else { h() }",
            "if true { g() } else { h() }",
        ),
        (
            Kind::Dropped,
            0,
            "if let A(a) = b && a { g() }",
            "if !on(0) && let A(a) = b && a { g() }",
            "if false { g() }",
        ),
        (Kind::Dropped, 0, "while a { g() }", "while !on(0) && (a) { g() }", "while false { g() }"),
        (
            Kind::Dropped,
            0,
            "match a { b if c => d }",
            "match a { b if !on(0) && (c) => d }",
            "match a { b if false => d }",
        ),
        (Kind::LeftOut, 0, "x.f(a); g()", "if !on(0) { x.f(a); } g()", "g()"),
        (Kind::LeftOut, 0, "x.f(a)?;", "if !on(0) { x.f(a)?; }", ""),
        (Kind::LeftOut, 0, "x += a;", "if !on(0) { x += a; }", ""),
    ] {
        let (text, places) = places_of(body);
        let place = places.iter().filter(|place| place.kind == kind).nth(nth).expect(body);
        let rewritten = rewrite(&text, &[(0, place)]).replace("::forebay::mutant::", "");
        assert_eq!(rewritten, text.replace(body, switched));
        let (bytes, by) = &place.shown;
        let by_hand = format!("{}{by}{}", &text[..bytes.start], &text[bytes.end..]);
        assert_eq!(
            by_hand.split_whitespace().collect::<Vec<_>>(),
            text.replace(body, shown).split_whitespace().collect::<Vec<_>>()
        );
    }
}

// Do mutants within one another fit into one file, whichever way they nest?
#[test]
fn mutants_nest() {
    let (text, places) = places_of("if a + 1 < b { x.f(2); }");
    let drawn = draw(&places, 1, 100, 1, |_| false);
    let mut drawn: Vec<_> = drawn.iter().map(|&place| (7, &places[place])).collect();
    drawn.retain(|(_, place)| place.kind != Kind::Turned);
    drawn.push((7, places.iter().find(|place| place.kind == Kind::Turned).unwrap()));
    let rewritten = rewrite(&text, &drawn).replace("::forebay::mutant::", "");
    let condition =
        "!on(7) && (either(7, &(plus_one(7, a + ten_times(7, plus_one(7, 1))) ), &( b), |a, b| a < b, |a, b| a <= b))";
    let body = "if !on(7) { x.f(ten_times(7, plus_one(7, 2))); }";
    assert!(rewritten.ends_with(&format!("fn f() {{ if {condition} {{ {body} }} }}")), "{rewritten}");
    assert!(syn::parse_file(&rewritten).is_ok());
}

// Is what has no switch left alone?
#[test]
fn what_the_compiler_must_know_is_left_alone() {
    for text in [
        "const A: u64 = 3 * 5;",
        "static A: bool = 3 < 5;",
        "const fn f() -> u64 { 3 * 5 }",
        "enum A { B = 3 }",
        "fn f(a: [u8; 4]) {}",
        "fn f() { match a { 3 | 5..=7 => b, _ => c } }",
        "fn f() { [a; 4] }",
        "fn f() -> A<4> { g::<4>() }",
        "fn f() { assert!(a < 3) }",
        "struct A { #[b(3 < 5)] c: d }",
    ] {
        let places = places_in(text);
        assert!(places.is_empty(), "{text}: {places:?}");
    }
}

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

// Are tests not mutated: functions, modules in the file, and files that only tests have?
#[test]
fn tests_are_not_mutated() {
    let tree = tree(&[
        (
            "src/a/mod.rs",
            "#[cfg(x)] mod c; #[cfg(not(x))] mod c; #[cfg(test)] mod tests; #[cfg(all(test, x))] mod all { fn f() { 1 } } \
             fn f() { 2 }",
        ),
        ("src/a/tests.rs", "fn f() { 3 }"),
        ("src/a/tests/more.rs", "fn f() { 4 }"),
        ("src/a/b.rs", "#[test] fn f() { 5 } #[cfg(test)] mod known; #[cfg(test)] impl A { fn g() { 6 } }"),
        ("src/a/b/known.rs", "fn f() { 7 }"),
        ("src/a/c.rs", "#[cfg(not(x))] fn f() { 1 } fn f() { 0 }"),
        ("src/ab.rs", "fn f() { 8 }"),
        ("tests/a.rs", "fn f() { 9 }"),
    ]);
    let places = found(&tree, &["src/a".to_owned()]).unwrap();
    assert_eq!(
        places.iter().map(|place| place.shown.1.as_str()).collect::<Vec<_>>(),
        ["(0 + 1)", "(2 * 10)", "(2 + 1)"]
    );
}

// Does the seed alone decide what is drawn, folder by folder, with no two at one operator, and does a refused place
// leave the others where they were?
#[test]
fn the_seed_decides() {
    let many = "fn f() { if a < 1 { x.f(2) ; } else { g(a + 3); } if a == 4 { h(5); } }".repeat(20);
    let tree = tree(&[("src/a/a.rs", &many), ("src/b/b.rs", &many), ("src/b/c.rs", &many)]);
    let places = found(&tree, &["src/a".to_owned(), "src/b".to_owned()]).unwrap();
    let drawn = draw(&places, 2, 50, 1, |_| false);
    assert_eq!(drawn, draw(&places, 2, 50, 1, |_| false));
    assert_ne!(drawn, draw(&places, 2, 50, 2, |_| false));
    assert_eq!(drawn.iter().filter(|&&place| places[place].folder == 0).count(), 25);
    for kind in places::KINDS {
        assert_eq!(drawn.iter().filter(|&&place| places[place].kind == kind).count(), 10);
    }
    let all = draw(&places, 2, usize::MAX, 1, |_| false);
    let clash = |at: usize| all[..at].iter().any(|&other| places[other].is_at(&places[all[at]]));
    assert!(all.len() > 500 && !(0..all.len()).any(clash));
    let without = draw(&places, 2, 50, 1, |place| place == drawn[7]);
    assert_eq!(without.iter().filter(|place| !drawn.contains(place)).count(), 1);
}

// Does a line of the report show the place, and the change over several lines?
#[test]
fn a_reader_finds_the_place() {
    let tree = tree(&[("src/a.rs", "fn f() {\n    // no\n    x.f(\n        5,\n    );\n}\n")]);
    let places = found(&tree, &["src".to_owned()]).unwrap();
    let left_out = places.iter().find(|place| place.kind == Kind::LeftOut).unwrap();
    assert_eq!(report::lines(left_out, &tree), 3..=5);
    let line = report::line(3, left_out, &tree, &Verdict::Unreached);
    assert_eq!(line, "#3 left out src/a.rs:3: Unreached\n    - x.f( 5, );\n    + ");
}

fn empty_folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("mutants-{name}-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

// Does the copy have the switches, and does a program that a test starts keep its mutant? Are files that need no change
// not written again?
#[test]
fn the_copy_has_the_switches() {
    let tree = tree(&[("src/lib.rs", "fn f() { g(0); }"), ("tests/a.rs", "command.env_clear().args(a);")]);
    let places = found(&tree, &["src".to_owned()]).unwrap();
    let folder = empty_folder("copy");
    let write = |drawn| write(&folder, &folder, &tree, drawn).unwrap();
    let read = |path| fs::read_to_string(folder.join(path)).unwrap();
    write(&places[..1]);
    assert!(read("src/lib.rs").starts_with("fn f() { if !::forebay::mutant::on(0) { g(0); } }\n"));
    assert!(read("src/mutant.rs").contains("pub fn on("));
    assert!(read("tests/a.rs").starts_with("command.env_clear().envs(") && read("tests/a.rs").contains("MUTANT"));
    // A file that is written has the time of the write.
    let changed = |path| fs::metadata(folder.join(path)).unwrap().modified().unwrap();
    fs::File::open(folder.join("tests/a.rs")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    write(&[]);
    assert_eq!(changed("tests/a.rs"), UNIX_EPOCH);
    assert!(read("src/lib.rs").starts_with("fn f() { g(0); }\n"));
    fs::remove_dir_all(&folder).unwrap();
}

/// Speaks as a test binary does: `a` reaches mutants 0, 2 and 3 and fails with 0, and in its first run with 3; `b` reaches
/// 1 and fails with 1 and 2; `c` reaches 2 and always fails.
const TESTS: &str = r#"#!/bin/sh
[ "$1" = --list ] && printf 'a: test\nb: test\nc: test\n' && exit
reach() { [ -z "$MUTANT_NOTES" ] || echo "$1" >> "$MUTANT_NOTES"; }
case $2-$MUTANT in
a-0 | b-[12] | c-*) code=1 ;;
a-3) mkdir "$0.once" && code=1 ;;
esac
case $2 in a) reach 0; reach 2; reach 3 ;; b) reach 1 ;; c) reach 2 ;; esac
exit ${code:-0}
"#;

// Do the tests that reach a mutant decide, those alone that pass without it, and only if they fail twice?
#[test]
fn tests_that_reach_a_mutant_decide() {
    let folder = empty_folder("tests");
    let path = folder.join("tests");
    fs::write(&path, TESTS).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let binaries = [Binary { name: "it".to_owned(), path, folder: folder.clone() }];
    let tests = judge::tests(&binaries, &folder.join("notes"), 2).unwrap();
    let verdicts = judge::judge(&tests, 5, 2, |_, _| ());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(tests.iter().map(|test| test.passes).collect::<Vec<_>>(), [true, true, false]);
    let caught = |test: &str| Verdict::Caught(test.to_owned());
    let survived = Verdict::Survived(1);
    assert_eq!(verdicts.unwrap(), [caught("it a"), caught("it b"), survived.clone(), survived, Verdict::Unreached]);
}
