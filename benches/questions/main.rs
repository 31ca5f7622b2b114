//! What did the ancestors of this server find, and what do our own parts say to the same questions?
//!
//! One file for each question. `cargo bench --bench questions` asks all and writes `benches/RESULTS.md`; with names behind
//! `--`, it prints the sections of these and writes nothing. `cargo test --benches` asks all with tiny sizes: each checks
//! its own results, and the page is checked to have a section for each.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its result")]

mod ancestors;
mod backlogs;
mod contenders;
mod deque;
mod false_sharing;
mod harness;
mod instructions;
mod latencies;
mod micropools;
mod mini;
mod packet_chain;
mod page;
mod pool;
mod sharded_queue;
mod shedding;
mod spawn;
mod split_deques;
mod stealing;
mod steps;
mod storage;
mod strategies;
mod virtual_time;

use forebay::time::clock;
use harness::Size;
use page::{Answer, Weather};
use std::fmt::Write;
use std::fs;

/// One question.
struct Question {
    name: &'static str,
    question: &'static str,
    ask: fn(Size) -> Answer,
}

/// All of them, in the order of the page.
const QUESTIONS: &[Question] = &[
    Question { name: "deque", question: deque::QUESTION, ask: deque::ask },
    Question { name: "false_sharing", question: false_sharing::QUESTION, ask: false_sharing::ask },
    Question { name: "storage", question: storage::QUESTION, ask: storage::ask },
    Question { name: "sharded_queue", question: sharded_queue::QUESTION, ask: sharded_queue::ask },
    Question { name: "spawn", question: spawn::QUESTION, ask: spawn::ask },
    Question { name: "pool", question: pool::QUESTION, ask: pool::ask },
    Question { name: "strategies", question: strategies::QUESTION, ask: strategies::ask },
    Question { name: "stealing", question: stealing::QUESTION, ask: stealing::ask },
    Question { name: "shedding", question: shedding::QUESTION, ask: shedding::ask },
    Question { name: "split_deques", question: split_deques::QUESTION, ask: split_deques::ask },
    Question { name: "micropools", question: micropools::QUESTION, ask: micropools::ask },
    Question { name: "packet_chain", question: packet_chain::QUESTION, ask: packet_chain::ask },
    Question { name: "steps", question: steps::QUESTION, ask: steps::ask },
];

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/RESULTS.md");

/// Stands between what introduces the page and its sections.
const HEADER: &str = "\
# The old questions, answered with our own parts

Written by `cargo bench --bench questions`; not to be edited by hand. What was published comes from other machines: compare
shapes and ratios, not absolutes. A figure is the median of 11 rounds, in which all that stands in one row took turns, with
the least and the largest; a ratio is the median of the ratios within each round. \\* marks more threads than processors: such
a figure says as much about the kernel's scheduler. `load` is the number of threads that ran or wanted to in the minute before:
far above zero at the first question, other programs were at work. Benches with pages of their own: [README.md](README.md).
";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [only, name, times] = &arguments[..]
        && only == instructions::ONLY
    {
        let step = steps::STEPS.iter().find(|step| step.name == name).expect("a step");
        return (step.times)(times.parse().expect("a number"));
    }
    // `cargo test --benches` runs this too: to see that it works, and not to measure.
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|name| QUESTIONS.iter().all(|question| question.name != **name)) {
        let names: Vec<&str> = QUESTIONS.iter().map(|question| question.name).collect();
        eprintln!("`{unknown}` is no question; allowed: {}", names.join(", "));
        std::process::exit(2);
    }
    let size = if measures { Size::Full } else { Size::Check };
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    let mut sections = String::new();
    for Question { name, question, ask } in QUESTIONS {
        if !wanted.is_empty() && wanted.iter().all(|wanted| *wanted != name) {
            continue;
        }
        let weather = Weather::now(size);
        let start = clock::now();
        let answer = ask(size);
        let seconds = clock::now().minus(start).as_secs_f64();
        eprintln!("{name}: {seconds:.1} s");
        let section = page::section(name, question, &answer, seconds, &weather);
        if !wanted.is_empty() {
            println!("{section}");
        }
        let _ = write!(sections, "\n{section}");
        failures.extend(answer.failure.map(|failure| format!("{name}: {failure}")));
        answers.push((*name, answer.verdict));
    }
    match size {
        Size::Full if wanted.is_empty() => {
            let page = format!("{HEADER}\n{}{sections}", ancestors::paragraphs(&answers));
            fs::write(PAGE, page).expect("the page is written");
            println!("written: {PAGE}");
        }
        Size::Full => {}
        Size::Check if wanted.is_empty() => {
            ancestors::paragraphs(&answers);
            check_page();
        }
        Size::Check => {}
    }
    if !failures.is_empty() {
        eprintln!("{}", failures.join("\n"));
        std::process::exit(1);
    }
}

/// Whether the page has a section for each question, in order, with a commit.
fn check_page() {
    let page = fs::read_to_string(PAGE).expect("the page of results");
    let sections = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
    let questions: Vec<&str> = QUESTIONS.iter().map(|question| question.name).collect();
    assert_eq!(sections.collect::<Vec<_>>(), questions, "run `cargo bench --bench questions`");
    let commands = page.matches("\n`cargo bench --bench questions -- ").count();
    assert_eq!(commands, questions.len(), "each section names its command");
}
