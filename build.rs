//! Makes the front page of the documentation of README.md. Its links lead to the files of the
//! package on docs.rs. Its program is compiled as an example and not run, because it serves until
//! something stops it.

use std::path::Path;
use std::{env, fs};

/// What links lead to that the package has, as `include` in Cargo.toml says: files, and all below a
/// folder. Whether a file is there does not tell: the package and the repository may be built into
/// one target folder.
const PACKAGED: [&str; 4] = ["src/", "deploy/", "examples/", "LICENSE"];
/// Packages of their own.
const APART: [&str; 1] = ["examples/dns/"];

fn main() {
    println!("cargo::rerun-if-changed=README.md");
    let variable = |name| env::var(name).expect("cargo sets it");
    let files =
        format!("https://docs.rs/crate/{}/{}/source/", variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"));
    let readme = fs::read_to_string("README.md").expect("it is part of the package");
    let page = with_links_to(&files, &readme).replace("\n```rust\n", "\n```rust,no_run\n");
    fs::write(Path::new(&variable("OUT_DIR")).join("front.md"), page).expect("cargo's own folder");
}

/// `page` with `files` before the path in each link. Of a link to what the package lacks the text
/// alone is left.
fn with_links_to(files: &str, page: &str) -> String {
    let is_below = |target: &str, paths: &[&str]| paths.iter().any(|path| target.starts_with(path));
    let is_packaged = |target: &str| is_below(target, &PACKAGED) && !is_below(target, &APART);
    let (mut linked, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once("](") {
        let (plain, text) = before.rsplit_once('[').expect("a link has a beginning");
        let (target, after) = after.split_once(')').expect("a link has an end");
        linked += plain;
        linked += &match target {
            _ if target.starts_with("https://") => format!("[{text}]({target})"),
            _ if is_packaged(target) => format!("[{text}]({files}{target})"),
            _ => text.to_owned(),
        };
        rest = after;
    }
    linked + rest
}
