//! Which modules can other programs see? Has each public module an example that runs? Does every
//! link on the front page of the documentation lead to a page?

use support::prelude::*;

/// The modules that authors of handlers and programs with a server need. Later versions will keep
/// them.
const PUBLIC: [&str; 7] = ["fate", "handler", "metrics", "server", "tasks", "time", "time::clock"];

/// The front page of the documentation, as the build has made it.
const FRONT: &str = include_str!(concat!(env!("OUT_DIR"), "/front.md"));

const README: &str = include_str!("../../../README.md");

/// The attribute of modules outside of this promise. A module that needs a feature also has the
/// feature's attribute.
const INSIDE: &str = "#[cfg_attr(doc, doc(hidden))]";

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The source of the module at `path`, as in `time::clock`.
fn source(path: &str) -> String {
    let file = format!("src/{}.rs", path.replace("::", "/"));
    let is_file = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file).is_file();
    read(&if is_file { file } else { file.replace(".rs", "/mod.rs") })
}

/// The modules that `text` makes public, each with the attributes above it.
fn public_modules(text: &str) -> Vec<(&str, Vec<&str>)> {
    let (mut modules, mut attributes) = (Vec::new(), Vec::new());
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pub mod ").and_then(|rest| rest.strip_suffix(';')) {
            modules.push((name, attributes.clone()));
        }
        if line.starts_with("#[") { attributes.push(line) } else { attributes.clear() }
    }
    modules
}

#[test]
fn the_public_modules_are_those_that_are_promised() {
    let mut seen = Vec::new();
    let mut pending = vec![String::new()];
    while let Some(parent) = pending.pop() {
        let text = if parent.is_empty() { read("src/lib.rs") } else { source(&parent) };
        for (name, attributes) in public_modules(&text) {
            if attributes.is_empty() {
                let path = if parent.is_empty() { name.to_owned() } else { format!("{parent}::{name}") };
                seen.push(path.clone());
                pending.push(path);
            } else {
                assert_eq!(attributes.last(), Some(&INSIDE), "{parent} {name}");
            }
        }
    }
    seen.sort();
    assert_eq!(seen, PUBLIC);
}

#[test]
fn each_public_module_has_an_example() {
    for module in PUBLIC {
        let text = source(module);
        let mut fences =
            text.lines().take_while(|line| line.starts_with("//!")).filter(|line| line.starts_with("//! ```"));
        assert_eq!(fences.next(), Some("//! ```"), "{module} has no example that runs");
    }
}

// Is the front page the README, with links to files of the package or to other sites?
#[test]
fn every_link_of_the_front_page_leads_somewhere() {
    let listed = cargo(&["package", "--package", "forebay", "--list", "--allow-dirty"]);
    let packaged =
        |path: &str| listed.lines().any(|file| file == path || path.ends_with('/') && file.starts_with(path));
    let files = concat!("https://docs.rs/crate/forebay/", env!("CARGO_PKG_VERSION"), "/source/");
    let (front, linked) = without_links(FRONT);
    for target in &linked {
        assert!(target.starts_with("https://"), "{target}");
        let path = target.strip_prefix(files).and_then(|path| path.split('#').next());
        assert!(path.is_none_or(packaged), "{target}");
    }
    let (readme, targets) = without_links(README);
    assert_eq!(front.replace("```rust,no_run", "```rust"), readme);
    let is_left_out =
        |target: &&&str| !target.starts_with("https://") && !linked.contains(&&*format!("{files}{target}"));
    let left_out: Vec<&str> = targets.iter().filter(is_left_out).copied().collect();
    assert!(!left_out.iter().any(|target| packaged(target.split('#').next().expect("a path"))), "{left_out:?}");
}

/// `page` with each link replaced by its text, and the targets of the links.
fn without_links(page: &str) -> (String, Vec<&str>) {
    let (mut plain, mut targets, mut rest) = (String::new(), Vec::new(), page);
    while let Some((before, after)) = rest.split_once("](") {
        let (target, after) = after.split_once(')').expect("a link has an end");
        let (ahead, text) = before.rsplit_once('[').expect("a link has a beginning");
        plain.extend([ahead, text]);
        targets.push(target);
        rest = after;
    }
    (plain + rest, targets)
}
