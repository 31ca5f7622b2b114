//! How much are the tests worth? Draws one-line mutants, and reports which of them no test notices.
//! README.md says how.
//!
//! cargo-mutants cannot replace it. Its list of mutations is fixed, without literals and left-out
//! statements, and it builds once for each mutant.

mod copy;
mod judge;
mod places;
mod shared;
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
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use std::{env, fs};
use syn::visit::Visit;

const ROUNDS: usize = 30;

/// What decides, measures or sends. A place belongs to the first of these that it is in.
const FOLDERS: [&str; 24] = [
    "crates/sched/src",
    "crates/base/src",
    "crates/clock/src",
    "src/server",
    "crates/runtime/src",
    "crates/metrics/src",
    "crates/udp/src",
    "crates/sim/src",
    "src/handler",
    "crates/tasks/src",
    "src/config",
    "src/emulation",
    "src",
    "loadgen/src/drive",
    "loadgen/src/lab",
    "loadgen/src/profile",
    "loadgen/src/compare",
    "loadgen/src/series",
    "loadgen/src/report",
    "loadgen/src/merge.rs",
    "loadgen/src",
    "examples/dns/src",
    "crates/quic/src",
    "crates/http3/src",
];

/// The sources that can be mutated: those of crates that depend on forebay, and its own.
const SOURCES: [&str; 4] = ["crates", "src", "loadgen/src", "examples/dns/src"];

/// Draws one-line mutants, runs the tests that reach each, and prints which ones survive.
#[derive(Parser)]
struct Arguments {
    /// Decides which places are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Mutants to draw; those that do not compile are left out
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=4096))]
    count: u16,
    /// Judge no more after this time, compiling included
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Exit with 1 if a smaller share is caught
    #[arg(long, default_value_t = 0.0)]
    at_least: f64,
    /// Exit with 1 if fewer are judged
    #[arg(long, default_value_t = 1, value_name = "MUTANTS")]
    at_least_judged: usize,
    /// Also write the report as a page
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Also run the tests of `alone`; then one test at a time
    #[arg(long)]
    alone: bool,
    /// Files or folders of sources
    #[arg(default_values = FOLDERS)]
    folders: Vec<String>,
}

/// The mutants that were judged, each with its verdict, in the order of the draw.
type Judged<'a> = Vec<(usize, &'a Place, Verdict)>;

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let until = arguments.minutes.map(|minutes| judge::now() + Duration::from_secs(60 * minutes));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("tests/mutants is in no repository")?;
    let work = root.join("target/mutants");
    let tree = copy::tree(root)?;
    let places = found(&tree, &arguments.folders)?;
    shared::dependencies(root, &tree, &work.join("build"))?;
    let (mutants, binaries) = built(root, &tree, &places, &arguments)?;
    // Most tests wait more than they compute. Those that measure must not run in parallel.
    let threads = if arguments.alone { 1 } else { 2 * std::thread::available_parallelism()?.get() };
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global()?;
    eprintln!("{} mutants; every test runs once", mutants.len());
    let tests = judge::tests(&binaries, &work.join("notes"))?;
    for test in tests.iter().filter(|test| !test.passes) {
        eprintln!("left out, because it fails without a mutant: {}", test.title());
    }
    ensure!(tests.iter().any(|test| test.passes), "no test passes");
    // In the order of the draw, so that the time which there is decides only how many.
    let verdicts = mutants.iter().enumerate().par_bridge().map(|(number, mutant)| {
        let verdict = judge::judge(&tests, number, until)?;
        if let Some(verdict) = &verdict {
            eprintln!("{}", line(number, mutant, &tree, verdict));
        }
        Ok(verdict.map(|verdict| (number, mutant, verdict)))
    });
    let mut judged: Judged<'_> = verdicts.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    judged.sort_by_key(|(number, ..)| *number);
    let report = report(&arguments.folders, &judged, &tree);
    print!("{report}");
    fs::write(work.join(format!("seed-{}.txt", arguments.seed)), &report)?;
    if let Some(page) = &arguments.page {
        fs::write(page, as_page(&report, &arguments, &commit(root)?))?;
    }
    let caught = judged.iter().filter(|(.., verdict)| verdict.column() == 0).count();
    let share = caught as f64 / judged.len().max(1) as f64;
    println!("\nseed {}: {} of {} drawn judged, {share:.2} caught", arguments.seed, judged.len(), mutants.len());
    Ok(ExitCode::from(u8::from(share < arguments.at_least || judged.len() < arguments.at_least_judged)))
}

fn commit(root: &Path) -> Result<String> {
    let output = Command::new("git").current_dir(root).args(["rev-parse", "--short=8", "HEAD"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The report as a page of Markdown.
fn as_page(report: &str, arguments: &Arguments, commit: &str) -> String {
    let seed = arguments.seed;
    format!(
        "# Mutants that no test notices\n\n[The tool](README.md) writes this page, and a later draw replaces it. Commit \
         {commit}, seed {seed}. A survivor may be\nharmless: judge each.\n\n```text\n{report}```\n"
    )
}

/// The places in `folders`, which are folders or files, without tests.
fn found(tree: &Tree, folders: &[String]) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (path, bytes) in tree.iter().filter(|(path, _)| SOURCES.iter().any(|of| Path::new(path).starts_with(of))) {
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
    for (number, folder) in folders.iter().enumerate() {
        ensure!(places.iter().any(|place| place.folder == number), "nothing in {folder} can be mutated");
    }
    Ok(places)
}

/// At most `count` of `places`, by index. Folders and kinds take turns, so that a small folder
/// counts as much as a large one; within a turn the order is drawn.
fn draw(places: &[Place], count: usize, seed: u64) -> Vec<usize> {
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut order: Vec<_> = (0..places.len()).map(|place| (random.next_u64(), place)).collect();
    order.sort_unstable();
    let (mut taken, mut turns) = (BTreeSet::new(), BTreeMap::<_, usize>::new());
    let mut drawn: Vec<_> = order
        .into_iter()
        .map(|(_, index)| (index, &places[index]))
        // One build cannot contain two mutations of the same operator.
        .filter(|(_, place)| taken.insert((&place.file, place.kind, place.around.start, place.around.end)))
        .map(|(index, place)| {
            let turn = turns.entry((place.kind, place.folder)).or_default();
            *turn += 1;
            (*turn, index)
        })
        .collect();
    drawn.sort_by_key(|(turn, _)| *turn);
    drawn.into_iter().take(count).map(|(_, index)| index).collect()
}

/// The drawn mutants that compile, and the binaries that contain all of them.
fn built(root: &Path, tree: &Tree, places: &[Place], arguments: &Arguments) -> Result<(Vec<Place>, Vec<Binary>)> {
    let targets = ["--lib", "--test", "it", "--test", "alone"];
    let targets = if arguments.alone { &targets } else { &targets[..3] };
    let work = root.join("target/mutants");
    let mut drawn = draw(places, arguments.count.into(), arguments.seed);
    for _ in 0..ROUNDS {
        let mutants: Vec<Place> = drawn.iter().map(|&place| places[place].clone()).collect();
        copy::write(root, &work.join("copy"), tree, &mutants)?;
        let built = copy::build(&work.join("copy"), &work.join("build"), targets)?;
        if built.errors.is_empty() {
            return Ok((mutants, built.binaries));
        }
        let mut refused: BTreeSet<usize> = BTreeSet::new();
        for (file, line) in built.errors {
            let of_file = drawn.iter().filter(|&&place| places[place].file == file);
            refused.extend(of_file.min_by_key(|&&place| line_of(&places[place], tree).abs_diff(line)));
        }
        ensure!(!refused.is_empty(), "the errors are in files without mutants");
        drawn.retain(|place| !refused.contains(place));
        eprintln!("{} mutants do not compile and are left out", refused.len());
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
fn report(folders: &[String], judged: &Judged<'_>, tree: &Tree) -> String {
    let row = |name: &str, is_of: &dyn Fn(&Place) -> bool| {
        let of_row = || judged.iter().filter(|(_, mutant, _)| is_of(mutant));
        let counts = [0, 1, 2].map(|column| of_row().filter(|(.., verdict)| verdict.column() == column).count());
        format!("{name:<20}{:>10}{:>10}{:>10}\n", counts[0], counts[1], counts[2])
    };
    let mut report = format!("{:>30}{:>10}{:>10}\n", "caught", "survived", "unreached");
    report.extend(folders.iter().enumerate().map(|(number, name)| row(name, &|mutant| mutant.folder == number)));
    report.extend(KINDS.iter().map(|kind| row(&format!("{kind:?}"), &|mutant| mutant.kind == *kind)));
    report += &row("all", &|_| true);
    let uncaught = judged.iter().filter(|(.., verdict)| verdict.column() > 0);
    report.extend(uncaught.map(|(number, mutant, verdict)| format!("\n{}\n", line(*number, mutant, tree, verdict))));
    report
}
