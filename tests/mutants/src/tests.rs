use crate::copy::{Binary, Tree, in_tree, write};
use crate::judge::{self, Verdict};
use crate::places::{KINDS, Kind, Place, rewrite};
use crate::{draw, found, line, line_of};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::UNIX_EPOCH;

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// The places of `text`, as the content of a file.
fn places_in(text: &str) -> Vec<Place> {
    found(&tree(&[("src/a.rs", text)]), &["src".to_owned()]).unwrap_or_default()
}

// If rustc names a file through another folder, is it found in the tree?
#[test]
fn a_path_is_named_as_in_the_tree() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    assert_eq!(in_tree(root, "src/../src/copy.rs"), "src/copy.rs");
    assert_eq!(in_tree(root, "src/none.rs"), "src/none.rs");
}

// Does each kind of mutant get the right switch?
#[test]
fn each_kind_is_rewritten() {
    for (kind, nth, body, switched) in [
        (Kind::Turned, 0, "a < b", "(if on(0) { a <= b } else { a < b })"),
        (Kind::Turned, 1, "a\n< b", "(if on(0) { a> b } else { a\n< b })"),
        (Kind::Turned, 0, "a >= b", "(if on(0) { a > b } else { a >= b })"),
        (Kind::Turned, 0, "a != b", "(if on(0) { a == b } else { a != b })"),
        (Kind::TenTimes, 0, "g(5)", "g((if on(0) { Number::times_plus(5, 10, 0) } else { 5 }))"),
        (Kind::TenTimes, 0, "g(a::LIMIT)", "g((if on(0) { Number::times_plus(a::LIMIT, 10, 0) } else { a::LIMIT }))"),
        (Kind::PlusOne, 0, "g(0)", "g((if on(0) { Number::times_plus(0, 1, 1) } else { 0 }))"),
        (Kind::PlusOne, 0, "a - b", "(if on(0) { Number::times_plus(a - b, 1, 1) } else { a - b })"),
        (Kind::Dropped, 0, "if a || b { g() }", "if (if on(0) { false } else { a || b }) { g() }"),
        (Kind::Dropped, 1, "if a { g() } else { h() }", "if (if on(0) { true } else { a }) { g() } else { h() }"),
        (Kind::Dropped, 0, "if let A(a) = b && a { g() }", "if !on(0) && let A(a) = b && a { g() }"),
        (Kind::Dropped, 0, "while a { g() }", "while (if on(0) { false } else { a }) { g() }"),
        (Kind::Dropped, 0, "match a { b if c => d }", "match a { b if (if on(0) { false } else { c }) => d }"),
        (Kind::LeftOut, 0, "x.f(a); g()", "if on(0) {  } else { x.f(a); } g()"),
        (Kind::LeftOut, 0, "x.f(a)?;", "if on(0) {  } else { x.f(a)?; }"),
        (Kind::LeftOut, 0, "x += a;", "if on(0) {  } else { x += a; }"),
    ] {
        let text = format!("fn f() {{ {body} }}");
        let places = places_in(&text);
        let place = places.iter().filter(|place| place.kind == kind).nth(nth).expect(body);
        let rewritten = rewrite(&text, [(0, place)].into_iter()).replace("::forebay::mutant::", "");
        assert_eq!(rewritten, text.replace(body, switched));
        assert!(syn::parse_file(&rewritten).is_ok(), "{rewritten}");
    }
}

// Are tests not mutated? Other code that may have no switch does not compile with one, and another
// place replaces it.
#[test]
fn tests_have_no_switch() {
    for text in [
        "#[test] fn f() { 5 } #[cfg(test)] impl A { fn g() { 6 } } #[cfg(not(x))] fn f() { 1 }",
        "#[cfg(all(test, x))] mod all { fn f() { 1 } } impl A { #[cfg(test)] fn g() { 6 } const B: u8 = 2; }",
    ] {
        let places = places_in(text);
        assert!(places.is_empty(), "{text}: {places:?}");
    }
    let paths = ["src/a/mod.rs", "src/a/tests.rs", "src/a/tests/more.rs", "src/a/c.rs", "src/ab.rs", "tests/a.rs"];
    let tree = tree(&paths.map(|path| (path, "fn f() { 2 }")));
    let mut files: Vec<_> = found(&tree, &["src/a".to_owned()]).unwrap().into_iter().map(|place| place.file).collect();
    files.dedup();
    assert_eq!(files, ["src/a/c.rs", "src/a/mod.rs"]);
}

// Have exactly those constants no switch that ten times does not change?
#[test]
fn ten_times_nothing_is_no_mistake() {
    for name in ["Nanos::ZERO", "time::Duration::ZERO", "f64::INFINITY", "std::u64::MAX", "i8::MAX", "Nanos::MAX"] {
        assert!(places_in(&format!("fn f() {{ g({name}) }}")).is_empty(), "{name}");
    }
    for name in ["ZERO", "a::ZERO", "INFINITY", "f64::MAX", "f64::MIN_POSITIVE", "i8::MIN", "Limits::MAX", "MAX"] {
        assert_eq!(places_in(&format!("fn f() {{ g({name}) }}")).len(), 1, "{name}");
    }
}

// Does only the seed decide what is drawn, folder by folder, with no two at one operator? If a
// place is refused, do the others stay?
#[test]
fn the_seed_decides() {
    let many = "fn f() { if a < 1 { x.f(2) ; } else { g(a + 3); } if a == 4 { h(5); } }".repeat(20);
    let tree = tree(&[("src/a/a.rs", &many), ("src/b/b.rs", &many), ("src/b/c.rs", &many)]);
    let places = found(&tree, &["src/a".to_owned(), "src/b".to_owned()]).unwrap();
    let none = BTreeSet::new();
    let drawn = draw(&places, 50, 1, &none);
    assert_eq!(drawn, draw(&places, 50, 1, &none));
    assert_ne!(drawn, draw(&places, 50, 2, &none));
    assert_eq!(drawn.iter().filter(|&&place| places[place].folder == 0).count(), 25);
    for kind in KINDS {
        assert_eq!(drawn.iter().filter(|&&place| places[place].kind == kind).count(), 10, "{kind:?}");
    }
    let all = draw(&places, usize::MAX, 1, &none);
    let taken: BTreeSet<_> = all.iter().map(|&at| &places[at]).map(|at| (&at.file, at.kind, at.around.start)).collect();
    assert!(all.len() > 500 && taken.len() == all.len(), "{} of {}", taken.len(), all.len());
    let without = draw(&places, 50, 1, &BTreeSet::from([drawn[7]]));
    assert_eq!(without.iter().filter(|place| !drawn.contains(place)).count(), 1);
}

// Does the copy have the switches, and does a program that a test starts keep its mutant? Is an
// unchanged file not written again? Can a reader find the place?
#[test]
fn the_copy_has_the_switches() {
    let tree = tree(&[
        ("src/lib.rs", "fn f() {\n    // no\n    x.f(\n        a,\n    );\n}\n"),
        ("tests/a.rs", "command.env_clear();"),
    ]);
    let places = found(&tree, &["src".to_owned()]).unwrap();
    assert_eq!(line_of(&places[0], &tree), 3);
    let line = line(3, &places[0], &tree, &Verdict::Unreached);
    assert_eq!(line, "#3 LeftOut src/lib.rs:3: Unreached\n    - x.f( a, );\n    + ");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |mutants| write(folder, folder, &tree, mutants).unwrap();
    let read = |path| fs::read_to_string(folder.join(path)).unwrap();
    write(&places);
    assert!(read("src/lib.rs").contains("{  } else { x.f(\n        a,\n    ); }\n}\n"), "{}", read("src/lib.rs"));
    assert!(read("src/mutant.rs").contains("pub fn on("));
    assert!(read("tests/a.rs").starts_with("command.env_clear().envs(") && read("tests/a.rs").contains("MUTANT"));
    // A written file would have the time of the write.
    fs::File::open(folder.join("tests/a.rs")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    write(&[]);
    assert_eq!(fs::metadata(folder.join("tests/a.rs")).unwrap().modified().unwrap(), UNIX_EPOCH);
    assert!(!read("src/lib.rs").contains("else"));
}

/// Acts as a test binary. `a` reaches mutants 0, 2 and 3; it fails with 0, and in its first run
/// with 3. `b` reaches 1, and fails with 1 and 2. `c` reaches 2, and always fails.
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

// Do only tests decide that reach a mutant and pass without it? Does a mutant count as caught only
// if a test fails twice?
#[test]
fn tests_that_reach_a_mutant_decide() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tests");
    fs::write(&path, TESTS).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let binaries = [Binary { name: "it".to_owned(), path, folder: folder.path().to_owned() }];
    let tests = judge::tests(&binaries, &folder.path().join("notes")).unwrap();
    assert_eq!(tests.iter().map(|test| test.passes).collect::<Vec<_>>(), [true, true, false]);
    let caught = |test: &str| Verdict::Caught(test.to_owned());
    let verdicts = [caught("it a"), caught("it b"), Verdict::Survived(1), Verdict::Survived(1), Verdict::Unreached];
    for (number, verdict) in verdicts.iter().enumerate() {
        assert_eq!(judge::judge(&tests, number).unwrap(), *verdict, "mutant {number}");
    }
}
