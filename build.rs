//! Makes the front page of the documentation of README.md: its links lead to the files of the package on docs.rs, and its
//! program is compiled as an example, but not run, since it serves until it is stopped.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=README.md");
    let variable = |name| env::var(name).expect("cargo sets it");
    let files =
        format!("https://docs.rs/crate/{}/{}/source/", variable("CARGO_PKG_NAME"), variable("CARGO_PKG_VERSION"));
    let readme = fs::read_to_string("README.md").expect("it is part of the package");
    let page = with_links_to(&files, &readme).replace("\n```rust\n", "\n```rust,no_run\n");
    fs::write(Path::new(&variable("OUT_DIR")).join("front.md"), page).expect("cargo's own folder");
}

/// `page` with `files` before the path in each link. Where there is no such file the link's text alone is left: docs.rs
/// builds from the package, which has no benches and no tests.
fn with_links_to(files: &str, page: &str) -> String {
    let (mut linked, mut rest) = (String::new(), page);
    while let Some((before, after)) = rest.split_once("](") {
        let (plain, text) = before.rsplit_once('[').expect("a link has a beginning");
        let (target, after) = after.split_once(')').expect("a link has an end");
        let path = Path::new(target.split('#').next().unwrap_or_default());
        linked += plain;
        linked += &match target {
            _ if target.starts_with("https://") => format!("[{text}]({target})"),
            _ if path.is_dir() => format!("[{text}]({files}{target}/)"),
            _ if path.exists() => format!("[{text}]({files}{target})"),
            _ => text.to_owned(),
        };
        rest = after;
    }
    linked + rest
}
