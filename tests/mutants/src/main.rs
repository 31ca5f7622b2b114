//! How much are the tests worth? Draws one-line mutants, and says which of them no test notices. README.md says how.

mod build;
mod draw;
mod judge;
mod places;
mod report;
mod rewrite;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail, ensure};
use build::{Binary, Built, Tree};
use places::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, thread};

const FOLDERS: [&str; 7] =
    ["src/sched", "src/server", "src/runtime", "src/metrics", "src/net", "src/lab", "loadgen/src"];
const ROUNDS: usize = 30;

struct Arguments {
    seed: u64,
    count: usize,
    at_least: f64,
    alone: bool,
    folders: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = arguments(env::args().skip(1))?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("tests/mutants is in no repository")?;
    let work = root.join("target/mutants");
    let tree = build::tree(root)?;
    let places = found(&tree, &arguments.folders)?;
    let (mutants, binaries) = built(root, &tree, &places, &arguments)?;
    // Tests that measure must not run beside others.
    let at_once = if arguments.alone { 1 } else { thread::available_parallelism()?.get() };
    eprintln!("{} mutants; every test runs once", mutants.len());
    let tests = judge::tests(&binaries, &work.join("notes"), at_once)?;
    for test in tests.iter().filter(|test| !test.passes) {
        eprintln!("left out, for it fails without a mutant: {}", test.title());
    }
    ensure!(tests.iter().any(|test| test.passes), "no test passes");
    let verdicts = judge::judge(&tests, mutants.len(), at_once, |number, verdict| {
        eprintln!("{}", report::line(number, &mutants[number], &tree, verdict));
    })?;
    let report = report::report(&arguments.folders, &mutants, &tree, &verdicts);
    print!("{report}");
    fs::write(work.join(format!("seed-{}.txt", arguments.seed)), report)?;
    Ok(if report::caught(&verdicts) < arguments.at_least { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments> {
    let mut arguments = Arguments { seed: 1, count: 200, at_least: 0.0, alone: false, folders: Vec::new() };
    while let Some(argument) = given.next() {
        let mut value = || given.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--seed" => arguments.seed = value()?.parse().context("--seed is a number")?,
            "--count" => arguments.count = value()?.parse().context("--count is a number")?,
            "--at-least" => arguments.at_least = value()?.parse().context("--at-least is a share, as 0.8")?,
            "--alone" => arguments.alone = true,
            _ if argument.starts_with('-') => bail!("{argument}: allowed are --seed, --count, --at-least, --alone"),
            _ => arguments.folders.push(argument.trim_end_matches('/').to_owned()),
        }
    }
    ensure!((1..=4096).contains(&arguments.count), "--count is 1 to 4096");
    if arguments.folders.is_empty() {
        arguments.folders = FOLDERS.map(str::to_owned).into();
    }
    Ok(arguments)
}

/// The places in `folders`, each a folder or a file. Says on standard error how many there are, and what has none.
fn found(tree: &Tree, folders: &[String]) -> Result<Vec<Place>> {
    let is_source =
        |path: &str| path.ends_with(".rs") && (path.starts_with("src/") || path.starts_with("loadgen/src/"));
    let (mut files, mut numbers) = (BTreeMap::new(), BTreeSet::new());
    for (path, bytes) in tree.iter().filter(|(path, _)| is_source(path)) {
        let text = std::str::from_utf8(bytes)?;
        numbers.extend(places::numbers(text));
        files.insert(path, syn::parse_file(text).context(path.clone())?);
    }
    let for_tests: Vec<String> = files.iter().flat_map(|(path, file)| places::test_files(path, file)).collect();
    let (mut all, mut skipped) = (Vec::new(), BTreeMap::new());
    for (path, file) in files.iter().filter(|(path, _)| !for_tests.iter().any(|start| path.starts_with(start))) {
        let is_in =
            |folder: &&String| path.strip_prefix(*folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if let Some(folder) = folders.iter().position(|folder| is_in(&folder)) {
            all.extend(places::places(file, path, folder, &numbers, &mut skipped));
        }
    }
    eprintln!("{} places; without a switch: {skipped:?}", all.len());
    ensure!(!all.is_empty(), "nothing in {folders:?} can be mutated");
    Ok(all)
}

/// The drawn mutants that compile, and the binaries that have them all.
fn built(root: &Path, tree: &Tree, places: &[Place], arguments: &Arguments) -> Result<(Vec<Place>, Vec<Binary>)> {
    let targets: &[&str] =
        if arguments.alone { &["--lib", "--test", "it", "--test", "alone"] } else { &["--lib", "--test", "it"] };
    let work = root.join("target/mutants");
    let copy = work.join("copy");
    let mut refused = BTreeSet::<usize>::new();
    for _ in 0..ROUNDS {
        let is_refused = |place: usize| refused.contains(&place);
        let drawn = draw::draw(places, arguments.folders.len(), arguments.count, arguments.seed, is_refused);
        let mutants: Vec<Place> = drawn.iter().map(|&place| places[place].clone()).collect();
        build::write(root, &copy, tree, &mutants)?;
        match build::build(&copy, &work.join("build"), targets)? {
            Built::Binaries(binaries) => return Ok((mutants, binaries)),
            Built::Errors(errors) => {
                let before = refused.len();
                for (file, line) in errors {
                    let wrong = drawn.iter().filter(|&&place| places[place].file == file).min_by_key(|&&place| {
                        let lines = report::lines(&places[place], tree);
                        (lines.start().saturating_sub(line).max(line.saturating_sub(*lines.end())), lines.count())
                    });
                    refused.extend(wrong);
                }
                eprintln!("{} mutants do not compile; others take their places", refused.len() - before);
                ensure!(refused.len() > before, "the errors are in files without mutants");
            }
        }
    }
    bail!("after {ROUNDS} rounds there are still mutants that do not compile")
}
