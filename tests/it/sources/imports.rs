//! Does each module import only from lower layers, as `layers.txt` says? The sources are read as
//! tokens, so every named path counts, even in code that is not compiled. Also checked: the length
//! of files, and where `unsafe` is permitted.

mod paths;
mod rules;

use paths::paths;
use rules::{complaints, imports, module_of, pointing_up, top_of};
use support::prelude::*;

const LINES_MAX: usize = 400;

#[test]
fn sources_keep_to_the_table() {
    let sources = sources(&["src", "loadgen/src"]);
    assert!(sources.len() > 10, "src/ was not found");
    let complaints: Vec<String> =
        sources.iter().flat_map(|(path, text)| complaints(&path.to_string_lossy(), text)).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert_eq!(pointing_up(), Vec::<String>::new());
}

// Re-exports from files of the same folder do not count, and neither do tests.
#[test]
fn modules_and_files_form_no_circle() {
    let mut modules = Edges::new();
    for (path, text) in sources(&["src", "loadgen/src"]) {
        let module = module_of(&path.to_string_lossy());
        if let Some(top) = top_of(&module) {
            modules.entry(top).or_default().extend(imports(&module, &text));
        }
    }
    let is_test =
        |path: &Path| ["tests", "explore", "command_lines"].iter().any(|part| path.to_string_lossy().contains(part));
    let sources = sources(&["src", "loadgen/src", "crates"]).into_iter().filter(|(path, _)| !is_test(path));
    let sources: BTreeMap<String, String> =
        sources.map(|(path, text)| (module_of(&path.to_string_lossy()).join("::"), text)).collect();
    let mut files = Edges::new();
    for (file, text) in &sources {
        let module: Vec<String> = file.split("::").map(str::to_owned).collect();
        let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let named = paths(code, &module).into_iter().filter(|named| named.in_crate);
        let others = named.filter_map(|named| file_of(&named.segments, &sources)).filter(|other| other != file);
        files.entry(file.clone()).or_default().extend(others);
    }
    for (file, other) in [
        ("server::path::engine::run", "server::path::job"),
        ("crates::runtime::sleep::sleeper", "crates::runtime::sleep::idle"),
    ] {
        assert!(files[file].contains(other), "imports are not seen: {files:?}");
    }
    assert_eq!((circle(&modules), circle(&files)), (vec![], vec![]), "these import one another in a circle");
}

/// The file to which the path `segments` leads.
fn file_of(segments: &[String], files: &BTreeMap<String, String>) -> Option<String> {
    (1..=segments.len()).rev().map(|count| segments[..count].join("::")).find(|file| files.contains_key(file))
}

#[test]
fn files_are_short() {
    let sources = sources(&["src", "crates", "loadgen", "tests", "benches", "examples"]);
    let long: Vec<_> = sources.iter().filter(|(_, text)| is_long(text)).map(|(path, _)| path).collect();
    assert!(long.is_empty(), "more than {LINES_MAX} lines: {long:?}");
}

// The compiler refuses `unsafe` unless an attribute permits it.
#[test]
fn unsafe_stays_where_it_may() {
    let attributes = ["allow", "expect", "warn"].map(|level| format!("{level}(unsafe_code"));
    let sources = sources(&["src", "crates", "loadgen", "tests", "benches", "examples"]).into_iter();
    let permits = |text: &str| attributes.iter().any(|attribute| text.contains(attribute));
    let files: BTreeSet<PathBuf> = sources.filter(|(_, text)| permits(text)).map(|(path, _)| path).collect();
    let may = [
        "crates/runtime/src/continuation/helpers/priority.rs",
        "crates/runtime/src/notice/ring.rs",
        "tests/allocations/counter.rs",
    ];
    assert_eq!(files, may.map(PathBuf::from).into());
}

#[test]
fn tests_that_measure_run_alone() {
    let sources = sources(&["tests/alone", "loadgen/tests/alone", "loadgen/tests/release"]);
    assert!(sources.iter().map(|(_, text)| text.matches(TEST).count()).sum::<usize>() > 40, "the tests were not found");
    let complaints: Vec<_> =
        sources.iter().flat_map(|(path, text)| without_alone(text).map(move |name| (path, name))).collect();
    assert!(complaints.is_empty(), "these begin without `let _alone = alone();`: {complaints:?}");
    for (path, text) in &sources {
        // A helper that takes the lock a second time would wait for ever.
        assert_eq!(text.matches("= alone();").count(), text.matches(TEST).count(), "{}", path.display());
    }
    let right = "#[test]\nfn a() {\n    let _alone = alone();\n}\n";
    let wrong = "#[test]\nfn b() {\n    let _ = alone();\n}\n";
    assert_eq!(without_alone(&format!("{right}{wrong}{right}")).collect::<Vec<_>>(), ["fn b() {"]);
}

const TEST: &str = "#[test]\n";

/// The first lines of tests in `text` that do not begin by taking the lock.
fn without_alone(text: &str) -> impl Iterator<Item = &str> {
    let tests = text.split(TEST).skip(1).filter_map(|test| test.split_once('\n'));
    tests.filter(|(_, body)| !body.starts_with("    let _alone = alone();\n")).map(|(name, _)| name)
}

#[test]
fn the_checker_sees_what_is_wrong() {
    for (path, text, complaint) in [
        ("src/fate/mod.rs", "use crate::server::serve;", "fate may not import server"),
        ("src/fate/mod.rs", "fn f() { crate::server::serve() }", "fate may not import server"),
        ("src/fate/mod.rs", "fn f(x: forebay::inside::sched::PolicyName) {}", "fate may not import sched"),
        ("src/fate/deep/er.rs", "use super::super::super::{time::Nanos, sched::{self}};", "may not import sched"),
        ("src/fate/mod.rs", "mod tests { use super::super::net::Socket; }", "fate may not import net"),
        ("src/fate/mod.rs", "mod a { mod b {} use super::super::net as n; }", "fate may not import net"),
        ("src/fate/mod.rs", "macro_rules! m { () => { $crate::net::open() } }", "fate may not import net"),
        ("src/fate/mod.rs", "use crate::*;", "names the crate's root"),
        ("src/fate/mod.rs", "use crate as root;", "names the crate's root"),
        ("src/fate/mod.rs", "use crate::{self as root};", "names the crate's root"),
        ("src/output/worker.rs", "use std::{io, net::UdpSocket};", "output may not name std::net"),
        ("src/output/worker.rs", "fn f(a: &SocketAddrV4) {}", "output may not name SocketAddr*"),
        ("src/output/a.rs", "fn f() { ::std::net::UdpSocket::bind(x) }", "may not name std::net"),
        ("loadgen/src/lab/study/a.rs", "use std::{net::*};", "may not name std::net"),
        ("src/time/mod.rs", "use std as s;", "brings in all of std"),
        ("src/time/mod.rs", "use std::*;", "brings in all of std"),
        ("src/time/mod.rs", "extern crate std as s;", "extern crate"),
        ("src/server/path/packet.rs", "use crate::server::Server;", "server::path may not import server::Server"),
        ("loadgen/src/drive/flows.rs", "use crate::run::execute;", "drive may not import loadgen::run::execute"),
        ("loadgen/src/novel.rs", "", "novel is not in the table"),
        ("src/novel.rs", "", "novel is not in the table"),
        ("src/server/novel.rs", "", "server::novel is not in the table"),
        ("src/server/admin/gate.rs", "use crate::server::life::stop;", "server::admin may not import server::life"),
        ("src/server/cores.rs", "use super::Server;", "server::cores may not import server::Server"),
        ("src/config/rules.rs", "mod tests { use crate::server::Server; }", "config::rules may not import server"),
        ("src/config/novel.rs", "", "config::novel is not in the table"),
    ] {
        let complaints = complaints(path, text);
        assert!(complaints.iter().any(|said| said.contains(complaint)), "{path}: {text}\n{complaints:?}");
    }
    assert!(is_long(&"\n".repeat(LINES_MAX + 1)));
    let edges =
        [("a", "b"), ("b", "c"), ("c", "b"), ("d", "d")].map(|(from, to)| (from.to_owned(), [to.to_owned()].into()));
    assert_eq!(circle(&edges.into()), ["b", "c"]);
}

// Does a datagram pass through few files and types? Do the files that `server/path/README.md` lists
// exist?
#[test]
fn the_way_of_a_datagram_is_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("src/server/path/README.md")).unwrap();
    let (files, types) = page.split_once("## Types to know").unwrap();
    let numbered = files.lines().filter(|line| line.starts_with(char::is_numeric) && line.contains(". `"));
    let files: Vec<&str> = numbered.filter_map(|line| line.split('`').nth(1)).collect();
    assert!((10..=20).contains(&files.len()), "{files:?}");
    let missing: Vec<_> = files.iter().filter(|file| !root.join(file).is_file()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let is_type = |word: &&str| word.starts_with(char::is_uppercase);
    let types: Vec<&str> = types.split('`').skip(1).step_by(2).filter(is_type).collect();
    assert!((10..=25).contains(&types.len()), "{} types: {types:?}", types.len());
    let sources = sources(&["src", "crates"]);
    let words = sources.iter().flat_map(|(_, text)| text.split(|letter: char| !letter.is_alphanumeric()));
    let words: Vec<&str> = words.collect();
    let declarations = words.windows(2).filter(|pair| ["struct", "enum", "trait", "type"].contains(&pair[0]));
    let declared: BTreeSet<&str> = declarations.map(|pair| pair[1]).collect();
    let unknown: Vec<_> = types.iter().filter(|name| !declared.contains(*name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// The modules that import themselves through others.
fn circle(edges: &Edges) -> Vec<&String> {
    let is_member = |module: &&String| {
        let (mut reached, mut pending) = (BTreeSet::new(), vec![*module]);
        while let Some(from) = pending.pop() {
            let others = edges.get(from).into_iter().flatten().filter(|to| *to != from);
            pending.extend(others.filter(|to| reached.insert(*to)));
        }
        reached.contains(module)
    };
    edges.keys().filter(is_member).collect()
}

fn is_long(text: &str) -> bool {
    text.lines().count() > LINES_MAX
}

/// The Rust files below `folders`, by their paths from the root of the repository.
pub(super) fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut pending: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut sources = Vec::new();
    while let Some(path) = pending.pop() {
        if path.is_dir() {
            pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push((path.strip_prefix(root).unwrap().to_owned(), fs::read_to_string(&path).unwrap()));
        }
    }
    sources
}
