//! Takes over what the tree's own build has made of crates from registries, so that the copy
//! compiles only the workspace. Nothing of the workspace is taken: its crates have the same names
//! in the tree and in the copy.

use crate::copy::Tree;
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Links or copies the dependencies in `root/target/debug` to `build`, unless `build` has some.
pub fn dependencies(root: &Path, tree: &Tree, build: &Path) -> Result<()> {
    let (from, to) = (root.join("target/debug"), build.join("debug"));
    if to.exists() || !from.exists() {
        return Ok(());
    }
    let crates = crates(str::from_utf8(tree.get("Cargo.lock").context("no Cargo.lock")?)?);
    for folder in [".fingerprint", "build", "deps"] {
        for entry in fs::read_dir(from.join(folder))?.flatten() {
            if entry.file_name().to_str().and_then(crate_of).is_some_and(|name| crates.contains(&name)) {
                take(&entry.path(), &to.join(folder).join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

/// The names of the crates of `lock` that come from registries, with `_` in place of `-`.
fn crates(lock: &str) -> BTreeSet<String> {
    let packages: Vec<&str> = lock.split("[[package]]").collect();
    let named = |is_ours: bool| {
        let of = packages.iter().filter(move |package| package.contains("\nsource = ") != is_ours);
        of.filter_map(|package| Some(package.split("name = \"").nth(1)?.split('"').next()?.replace('-', "_")))
    };
    let ours: BTreeSet<String> = named(true).collect();
    named(false).filter(|name| !ours.contains(name)).collect()
}

/// The crate of a file of cargo's, such as `libserde-0123456789abcdef.rlib`.
fn crate_of(file: &str) -> Option<String> {
    let (name, rest) = file.rsplit_once('-')?;
    let hash = rest.split('.').next()?;
    let is_hash = hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = if rest.contains('.') && !rest.ends_with(".d") { name.strip_prefix("lib")? } else { name };
    is_hash.then(|| name.replace('-', "_"))
}

/// Links what the compiler replaces as a whole, and copies what cargo writes to.
fn take(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        return fs::read_dir(from)?.flatten().try_for_each(|entry| take(&entry.path(), &to.join(entry.file_name())));
    }
    fs::create_dir_all(to.parent().context("it is below the build")?)?;
    let is_whole =
        from.extension().is_some_and(|extension| ["rlib", "rmeta", "so", "a", "o"].iter().any(|it| extension == *it));
    if is_whole && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    // cargo goes by the time.
    fs::File::open(to)?.set_modified(fs::metadata(from)?.modified()?)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each file of a crate from a registry known, and none of the workspace?
    #[test]
    fn files_of_dependencies_are_known() {
        let lock = "[[package]]\nname = \"serde-a\"\nsource = \"r\"\n[[package]]\nname = \"forebay\"\n";
        let crates = crates(lock);
        for (file, is_taken) in [
            ("libserde_a-0123456789abcdef.rlib", true),
            ("libserde_a-0123456789abcdef.so", true),
            ("serde_a-0123456789abcdef.d", true),
            ("serde-a-0123456789abcdef", true),
            ("serde-a-0123", false),
            ("libforebay-0123456789abcdef.rlib", false),
            ("forebay-0123456789abcdef", false),
            ("it-0123456789abcdef", false),
        ] {
            assert_eq!(crate_of(file).is_some_and(|name| crates.contains(&name)), is_taken, "{file}");
        }
    }
}
