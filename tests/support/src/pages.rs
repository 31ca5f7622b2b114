//! The pages of the repository, and the commands in them.

use std::path::Path;

/// What the first command begins with: it makes both programs.
pub const BUILD: &str = "cargo build --release && ";
pub const RUN_LOADGEN: &str = "target/release/loadgen ";
pub const RUN_FOREBAY: &str = "target/release/forebay serve ";
pub const RUN_SIMULATE: &str = "cargo run --release -p loadgen -- simulate ";
pub const RUN_PLAN: &str = "cargo run --release -p loadgen -- plan ";
pub const RUN_CALIBRATE: &str = "cargo run --release -p loadgen -- calibrate ";

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

pub fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The paths, from the root, of the Markdown files in `folder` and below it, sorted.
pub fn markdown_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = format!("{folder}/{}", entry.file_name().into_string().expect("UTF-8"));
        if entry.path().is_dir() && entry.file_name() != "target" {
            found.extend(markdown_below(&name));
        } else if name.ends_with(".md") {
            found.push(name);
        }
    }
    found.sort();
    found
}

/// The packages below `crates` that stand on forebay, and are no layers of it. Their own tests read
/// their pages.
const ABOVE: [&str; 2] = ["crates/http3/", "crates/quic/"];

/// The READMEs of the repository and of the generator, and those beside the code.
pub fn pages() -> Vec<String> {
    let beside = ["src", "crates", "loadgen/src"].into_iter().flat_map(markdown_below);
    let beside = beside.filter(|page| !ABOVE.iter().any(|above| page.starts_with(above)));
    ["README.md", "loadgen/README.md"].map(str::to_owned).into_iter().chain(beside).collect()
}

/// The contents of the pages' blocks of this language.
pub fn blocks(language: &str) -> Vec<String> {
    pages().iter().flat_map(|page| blocks_of(page, language)).collect()
}

pub fn blocks_of(page: &str, language: &str) -> Vec<String> {
    let (text, fence) = (read(page), format!("\n```{language}\n"));
    text.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap_or_default().to_owned()).collect()
}

pub fn commands() -> Vec<String> {
    let lines = blocks("sh");
    let lines = lines.iter().flat_map(|block| block.lines());
    // A program that is installed is the one that cargo runs.
    let plain = |line: &str| match line.strip_prefix("loadgen ") {
        Some(arguments) => format!("cargo run --release -p loadgen -- {arguments}"),
        None => line.strip_prefix(BUILD).unwrap_or(line).to_owned(),
    };
    lines.map(plain).collect()
}
