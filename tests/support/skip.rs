//! Tests that cannot run here must not count as tests that passed.

use std::fmt::Display;
use std::io::Write;
use std::{env, io, thread};

/// Says on the terminal that the calling test does not run, or not all of it, and `why`.
///
/// # Panics
/// Where `CI` is set: .ci/run installs what tests need, and its host must permit it.
#[track_caller]
pub(crate) fn skip(why: impl Display) {
    assert!(env::var_os("CI").is_none(), "in CI nothing is skipped: {why}");
    not_permitted(why);
}

/// The same for what the host of a container permits or not: there CI can install nothing for it.
pub(crate) fn not_permitted(why: impl Display) {
    // Not by a macro: what those print is shown of failures only.
    let _ = writeln!(io::stderr(), "{}{why}", begin());
}

/// What [`skip`] said in `said`, the output of another process that ran the calling test.
pub(crate) fn skipped_in(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix(&begin()))
}

fn begin() -> String {
    format!("SKIPPED: {}: ", thread::current().name().unwrap_or("a test"))
}
