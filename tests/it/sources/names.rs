//! Does a noun stand for one type? A reader who meets a name twice has to look which one it is.

use super::imports::sources;
use support::prelude::*;

/// The most definitions of a crate, in percent, that share their name with another one of it.
const SHARED_MAX: usize = 5;

/// The name of the type that `line` defines, if it does. A type of a trait has its trait's name
/// before it.
fn defined(line: &str) -> Option<&str> {
    let is_inner = line.starts_with(' ');
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| {
        let rest = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |(_, rest)| rest);
        rest.trim_start()
    });
    let (kind, rest) = line.split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "union"].contains(&kind) || kind == "type" && !is_inner;
    let name = rest.split(|letter: char| !letter.is_alphanumeric()).next()?;
    (is_type && name.starts_with(char::is_uppercase)).then_some(name)
}

#[test]
fn a_noun_is_one_type() {
    assert_eq!(defined("pub(crate) struct Piece<T> {"), Some("Piece"));
    assert_eq!(defined("    type Piece = ();"), None, "it is a trait's");
    assert_eq!(defined("type Piece = ();"), Some("Piece"));
    let folders = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("crates")).expect("a folder");
    let folders = folders.map(|entry| format!("crates/{}/src", entry.expect("an entry").file_name().to_string_lossy()));
    let others = ["src", "loadgen/src", "examples/dns/src"].map(str::to_owned);
    for folder in folders.chain(others) {
        let is_test = |path: &Path| ["tests", "explore"].iter().any(|part| path.to_string_lossy().contains(part));
        let mut names = BTreeMap::<String, Vec<PathBuf>>::new();
        for (path, text) in sources(&[&folder]).into_iter().filter(|(path, _)| !is_test(path)) {
            let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for name in code.lines().filter_map(defined) {
                names.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
        let count = |files: &mut dyn Iterator<Item = &Vec<PathBuf>>| files.map(Vec::len).sum::<usize>();
        let shared: Vec<_> = names.iter().filter(|(_, files)| files.len() > 1).collect();
        let (all, shares) = (count(&mut names.values()), count(&mut shared.iter().map(|(_, files)| *files)));
        assert!(shares * 100 <= all * SHARED_MAX, "{folder}: {shares} of {all} share a name: {shared:#?}");
    }
}
