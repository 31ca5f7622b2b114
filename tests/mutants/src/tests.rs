use crate::copy::{Tree, write};
use crate::judge::Verdict;
use crate::places::{Kind, Place, rewrite};
use crate::{found, line, line_of};
use std::fs;
use std::time::UNIX_EPOCH;

fn tree(files: &[(&str, &str)]) -> Tree {
    files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect()
}

/// The places of `text`, as the content of a file.
fn places_in(text: &str) -> Vec<Place> {
    found(&tree(&[("src/a.rs", text)]), &["src".to_owned()]).unwrap_or_default()
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

// Does the copy have the switches, and does a program that a test starts keep its mutant? Is an
// unchanged file not written again? Can a reader find the place?
#[test]
fn the_copy_has_the_switches() {
    let tree = tree(&[
        ("src/lib.rs", "fn f() {\n    // no\n    x.f(\n        a,\n    );\n}\n"),
        ("crates/base/src/lib.rs", "fn f() { x += a; }"),
        ("crates/quic/src/lib.rs", "fn f() { x += a; }"),
        ("tests/a.rs", "command.env_clear();"),
    ]);
    let places = found(&tree, &["src".to_owned(), "crates".to_owned()]).unwrap();
    let places: Vec<Place> = places.into_iter().rev().collect();
    assert_eq!(line_of(&places[0], &tree), 3);
    let line = line(3, &places[0], &tree, &Verdict::Unreached);
    assert_eq!(line, "#3 LeftOut src/lib.rs:3: Unreached\n    - x.f( a, );\n    + ");
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |mutants| write(folder, folder, &tree, mutants).unwrap();
    let read = |path| fs::read_to_string(folder.join(path)).unwrap();
    write(&places);
    assert!(read("src/lib.rs").contains("{  } else { x.f(\n        a,\n    ); }\n}\n"), "{}", read("src/lib.rs"));
    assert!(read("crates/base/src/mutant.rs").contains("pub fn on("));
    // What forebay depends on cannot name it.
    assert!(read("crates/base/src/lib.rs").contains("if ::forebay_base::mutant::on("));
    assert!(read("crates/quic/src/lib.rs").contains("if ::forebay::mutant::on("));
    assert!(
        read("src/lib.rs").contains("if ::forebay::mutant::on(")
            && read("src/lib.rs").contains("pub use forebay_base::mutant;")
    );
    assert!(read("tests/a.rs").starts_with("command.env_clear().envs(") && read("tests/a.rs").contains("MUTANT"));
    // A written file would have the time of the write.
    fs::File::open(folder.join("tests/a.rs")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    write(&[]);
    assert_eq!(fs::metadata(folder.join("tests/a.rs")).unwrap().modified().unwrap(), UNIX_EPOCH);
    assert!(!read("src/lib.rs").contains("else"));
}

// Is a folder that has gone, or has nothing to mutate, named? Otherwise no mutant would be drawn
// from it, and the report would not show it.
#[test]
fn a_folder_without_places_is_named() {
    let tree = tree(&[("src/a.rs", "fn f() { g(5); }"), ("crates/quic/src/b.rs", "fn f() { g(5); }")]);
    let of = |folders: &[&str]| {
        let folders: Vec<_> = folders.iter().map(|folder| (*folder).to_owned()).collect();
        found(&tree, &folders).map(|places| places.len()).map_err(|error| error.to_string())
    };
    assert_eq!(of(&["src", "crates/quic/src"]), Ok(6));
    assert_eq!(of(&["src", "src/gone"]), Err("nothing in src/gone can be mutated".to_owned()));
    assert_eq!(of(&["tests"]), Err("nothing in tests can be mutated".to_owned()));
}
