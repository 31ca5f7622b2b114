//! What do our own parts say to the questions that earlier schedulers left? Each file asks one question.
//!
//! `cargo bench --bench questions` asks all and writes `target/questions.md`; names behind `--` choose some. The answers
//! stand in `benches/RESULTS.md`. `cargo test --benches` asks all with tiny sizes: each checks its own results.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a bench prints its result")]

mod chain;
mod contenders;
mod harness;
mod instructions;
mod micropools;
mod packet_chain;
mod page;
mod steps;
mod tasks;

use harness::Size;
use page::Answer;
use std::fs;

struct Question {
    name: &'static str,
    question: &'static str,
    ask: fn(Size) -> Answer,
}

const QUESTIONS: &[Question] = &[
    Question { name: "tasks", question: tasks::QUESTION, ask: tasks::ask },
    Question { name: "micropools", question: micropools::QUESTION, ask: micropools::ask },
    Question { name: "packet_chain", question: packet_chain::QUESTION, ask: packet_chain::ask },
    Question { name: "steps", question: steps::QUESTION, ask: steps::ask },
];

/// The page that has the answers.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/RESULTS.md");
const TABLES: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/../questions.md");

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [only, name, times] = &arguments[..]
        && only == instructions::ONLY
    {
        let step = steps::STEPS.iter().find(|step| step.name == name).expect("a step");
        return (step.times)(times.parse().expect("a number"));
    }
    // `cargo test --benches` runs this too: to see that it works, and not to measure.
    let size = if arguments.iter().any(|argument| argument == "--bench") { Size::Full } else { Size::Check };
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    if let Some(unknown) = wanted.iter().find(|name| QUESTIONS.iter().all(|question| question.name != **name)) {
        let names: Vec<&str> = QUESTIONS.iter().map(|question| question.name).collect();
        eprintln!("`{unknown}` is no question; allowed: {}", names.join(", "));
        std::process::exit(2);
    }
    let page = fs::read_to_string(PAGE).expect("the page of answers");
    let (mut sections, mut failures) = (String::new(), Vec::new());
    for Question { name, question, ask } in QUESTIONS {
        assert!(page.contains(&format!("\n## `{name}`\n")), "{PAGE} has no section for {name}");
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            let answer = ask(size);
            sections += &page::section(name, question, &answer);
            sections.push('\n');
            failures.extend(answer.failure.map(|failure| format!("{name}: {failure}")));
        }
    }
    print!("{sections}");
    if size == Size::Full && wanted.is_empty() {
        fs::write(TABLES, sections).expect("the tables are written");
    }
    if !failures.is_empty() {
        eprintln!("{}", failures.join("\n"));
        std::process::exit(1);
    }
}
