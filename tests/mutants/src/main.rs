//! How much are the tests worth? Draws one-line mutants, and reports which of them no test notices.
//! README.md says how.
//!
//! cargo-mutants cannot replace it. Its list of mutations is fixed, without literals and left-out
//! statements, and it builds once for each mutant.

mod copy;
mod judge;
mod places;
#[cfg(test)]
mod tests;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use copy::{Binary, Tree};
use judge::Verdict;
use places::{Finder, KINDS, Place};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};
use syn::visit::Visit;

const ROUNDS: usize = 30;

/// Draws one-line mutants, runs the tests that reach each, and prints which ones survive.
#[derive(Parser)]
struct Arguments {
    /// Decides which places are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mutants to draw
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=4096))]
    count: u16,
    /// Exit with 1 if a smaller share is caught
    #[arg(long, default_value_t = 0.0)]
    at_least: f64,
    /// Also run the tests of `alone`; then one test at a time
    #[arg(long)]
    alone: bool,
    /// Files or folders below `src` and `loadgen/src`
    #[arg(default_values = ["src/sched", "src/server", "src/runtime", "src/metrics", "src/net", "loadgen/src"])]
    folders: Vec<String>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("tests/mutants is in no repository")?;
    let work = root.join("target/mutants");
    let tree = copy::tree(root)?;
    let places = found(&tree, &arguments.folders)?;
    let (mutants, binaries) = built(root, &tree, &places, &arguments)?;
    // Tests that measure must not run in parallel. Here 0 means the number of CPUs.
    rayon::ThreadPoolBuilder::new().num_threads(usize::from(arguments.alone)).build_global()?;
    eprintln!("{} mutants; every test runs once", mutants.len());
    let tests = judge::tests(&binaries, &work.join("notes"))?;
    for test in tests.iter().filter(|test| !test.passes) {
        eprintln!("left out, because it fails without a mutant: {}", test.title());
    }
    ensure!(tests.iter().any(|test| test.passes), "no test passes");
    let judged = mutants.par_iter().enumerate().map(|(number, mutant)| {
        let verdict = judge::judge(&tests, number)?;
        eprintln!("{}", line(number, mutant, &tree, &verdict));
        Ok(verdict)
    });
    let verdicts = judged.collect::<Result<Vec<_>>>()?;
    let report = report(&arguments.folders, &mutants, &tree, &verdicts);
    print!("{report}");
    fs::write(work.join(format!("seed-{}.txt", arguments.seed)), report)?;
    let caught = verdicts.iter().filter(|verdict| verdict.column() == 0).count();
    Ok(ExitCode::from(u8::from((caught as f64) < arguments.at_least * verdicts.len() as f64)))
}

/// The places in `folders`, which are folders or files, without tests.
fn found(tree: &Tree, folders: &[String]) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (path, bytes) in tree.iter().filter(|(path, _)| path.starts_with("src/") || path.starts_with("loadgen/src/")) {
        let is_test = ["/tests", "/explore", "command_lines"].iter().any(|name| path.contains(name));
        let folder = folders.iter().position(|folder| Path::new(path).starts_with(folder));
        if let Some(folder) = folder.filter(|_| path.ends_with(".rs") && !is_test) {
            let file = syn::parse_file(str::from_utf8(bytes)?).context(path.clone())?;
            let mut finder = Finder { path, folder, places };
            finder.visit_file(&file);
            places = finder.places;
        }
    }
    eprintln!("{} places", places.len());
    ensure!(!places.is_empty(), "nothing in {folders:?} can be mutated");
    Ok(places)
}

/// At most `count` of `places`, by index, without the `refused` ones. Folders and kinds take turns,
/// so that a small folder counts as much as a large one. If a place is refused, the next one of its
/// folder and kind replaces it, and all others stay.
fn draw(places: &[Place], count: usize, seed: u64, refused: &BTreeSet<usize>) -> Vec<usize> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut order: Vec<_> = (0..places.len()).map(|place| (random.next_u64(), place)).collect();
    order.sort_unstable();
    let (mut taken, mut turns) = (BTreeSet::new(), BTreeMap::<_, usize>::new());
    let mut drawn: Vec<_> = order
        .into_iter()
        .map(|(_, index)| (index, &places[index]))
        .filter(|(index, _)| !refused.contains(index))
        // One build cannot contain two mutations of the same operator.
        .filter(|(_, place)| taken.insert((&place.file, place.kind, place.around.start, place.around.end)))
        .map(|(index, place)| {
            let turn = turns.entry((place.kind, place.folder)).or_default();
            *turn += 1;
            (*turn, place.kind, place.folder, index)
        })
        .collect();
    drawn.sort_unstable();
    drawn.into_iter().take(count).map(|(.., index)| index).collect()
}

/// The drawn mutants that compile, and the binaries that contain all of them.
fn built(root: &Path, tree: &Tree, places: &[Place], arguments: &Arguments) -> Result<(Vec<Place>, Vec<Binary>)> {
    let targets = ["--lib", "--test", "it", "--test", "alone"];
    let targets = if arguments.alone { &targets } else { &targets[..3] };
    let work = root.join("target/mutants");
    let mut refused = BTreeSet::new();
    for _ in 0..ROUNDS {
        let drawn = draw(places, arguments.count.into(), arguments.seed, &refused);
        let mutants: Vec<Place> = drawn.iter().map(|&place| places[place].clone()).collect();
        copy::write(root, &work.join("copy"), tree, &mutants)?;
        let built = copy::build(&work.join("copy"), &work.join("build"), targets)?;
        if built.errors.is_empty() {
            return Ok((mutants, built.binaries));
        }
        let before = refused.len();
        for (file, line) in built.errors {
            let of_file = drawn.iter().filter(|&&place| places[place].file == file);
            refused.extend(of_file.min_by_key(|&&place| line_of(&places[place], tree).abs_diff(line)));
        }
        eprintln!("{} mutants do not compile; others take their places", refused.len() - before);
        ensure!(refused.len() > before, "the errors are in files without mutants");
    }
    bail!("after {ROUNDS} rounds there are still mutants that do not compile")
}

fn line_of(place: &Place, tree: &Tree) -> usize {
    1 + tree[&place.file][..place.at.start].iter().filter(|byte| **byte == b'\n').count()
}

/// A mutant with its lines before and after, and its verdict.
fn line(number: usize, mutant: &Place, tree: &Tree, verdict: &Verdict) -> String {
    let Place { file, kind, at, by, .. } = mutant;
    let text = String::from_utf8_lossy(&tree[file]);
    let start = text[..at.start].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at.end..].find('\n').map_or(text.len(), |newline| at.end + newline);
    let flat = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let before = flat(&text[start..end]);
    let after = flat(&format!("{}{by}{}", &text[start..at.start], &text[at.end..end]));
    format!("#{number} {kind:?} {file}:{}: {verdict:?}\n    - {before}\n    + {after}", line_of(mutant, tree))
}

/// How many mutants were caught, survived and were not reached, by folder and kind; then every
/// mutant that was not caught.
fn report(folders: &[String], mutants: &[Place], tree: &Tree, verdicts: &[Verdict]) -> String {
    let all = || mutants.iter().zip(verdicts);
    let row = |name: &str, is_of: &dyn Fn(&Place) -> bool| {
        let of_row = || all().filter(|(mutant, _)| is_of(mutant));
        let counts = [0, 1, 2].map(|column| of_row().filter(|(_, verdict)| verdict.column() == column).count());
        format!("{name:<14}{:>10}{:>10}{:>10}\n", counts[0], counts[1], counts[2])
    };
    let mut report = format!("{:>24}{:>10}{:>10}\n", "caught", "survived", "unreached");
    report.extend(folders.iter().enumerate().map(|(number, name)| row(name, &|mutant| mutant.folder == number)));
    report.extend(KINDS.iter().map(|kind| row(&format!("{kind:?}"), &|mutant| mutant.kind == *kind)));
    report += &row("all", &|_| true);
    let missed = all().enumerate().filter(|(_, (_, verdict))| verdict.column() > 0);
    report.extend(missed.map(|(number, (mutant, verdict))| format!("\n{}\n", line(number, mutant, tree, verdict))));
    report
}
