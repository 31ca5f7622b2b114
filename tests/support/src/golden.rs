//! Golden tables: decisions must stay equal to the bit. The tables are in `tests/golden` of the
//! package that is tested, where cargo starts its tests.

use std::path::Path;
use std::{env, fs};

/// The most lines that a failure shows.
const SHOWN: usize = 20;

/// Compares `text` with the table `name`. With `GOLDEN=write` in the environment, `text` becomes
/// the new table.
///
/// # Panics
/// If a line differs, or `GOLDEN` has another value.
pub fn assert_golden(name: &str, text: &str) {
    let path = Path::new("tests/golden").join(name);
    match env::var("GOLDEN").as_deref() {
        Err(_) => {}
        Ok("write") => return fs::write(&path, text).expect("a writable folder"),
        Ok(other) => panic!("GOLDEN={other}: the one value is write"),
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (was, is): (Vec<&str>, Vec<&str>) = (golden.lines().collect(), text.lines().collect());
    let lines = (0..was.len().max(is.len())).map(|line| (was.get(line), is.get(line)));
    let differ: Vec<_> = lines.enumerate().filter(|(_, (was, is))| was != is).collect();
    let show = |(line, (was, is)): &(usize, (Option<&&str>, Option<&&str>))| {
        format!("line {}\n  was {}\n  is  {}\n", line + 1, was.unwrap_or(&"-"), is.unwrap_or(&"-"))
    };
    let shown: String = differ.iter().take(SHOWN).map(show).collect();
    assert!(
        differ.is_empty(),
        "tests/golden/{name}: {} of {} lines differ; GOLDEN=write rewrites the table, and the commit says why\n{shown}",
        differ.len(),
        was.len(),
    );
}
