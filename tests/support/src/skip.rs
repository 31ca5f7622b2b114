//! Tests that cannot run here must say so, and fail in CI.

use std::fmt::Display;
use std::io::Write;
use std::{env, io, thread};

/// Prints on the terminal that the calling test does not run, or only a part of it, and `why`.
///
/// # Panics
/// If `CI` is set. There, .ci/run installs all programs that tests need, and the host must permit
/// all that they do.
#[track_caller]
pub fn skip(why: impl Display) {
    assert!(env::var_os("CI").is_none(), "in CI nothing is skipped: {why}");
    // Not a macro: the output of macros is shown only if a test fails.
    let _ = writeln!(io::stderr(), "{}{why}", begin());
}

/// The messages of [`skip`] in `said`, the output of another process that ran the calling test.
pub fn skipped_in(said: &str) -> impl Iterator<Item = &str> {
    said.lines().filter_map(|line| line.strip_prefix(&begin()))
}

fn begin() -> String {
    format!("SKIPPED: {}: ", thread::current().name().unwrap_or("a test"))
}
