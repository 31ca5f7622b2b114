//! How far the simulations are: a bar on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, stderr};

/// Counts simulated requests.
#[derive(Debug)]
pub(in crate::command) struct Progress(ProgressBar);

/// Requests between two steps of the bar: some milliseconds of simulating.
const STEP: u64 = 1 << 14;

impl Progress {
    /// For so many requests in all; where the number is a guess, the most that there may be.
    pub(in crate::command) fn new(requests: u64, quiet: bool) -> Progress {
        if quiet || !stderr().is_terminal() {
            return Progress(ProgressBar::hidden());
        }
        let style =
            ProgressStyle::with_template("[{bar:40}] {human_pos} of {human_len} requests, {per_sec}, {eta} left");
        let style = style.expect("a constant template").progress_chars("=> ");
        Progress(ProgressBar::new(requests).with_style(style))
    }

    /// `requests`, counted as they are taken.
    pub(in crate::command) fn watch<I: Iterator>(&self, requests: I) -> impl Iterator<Item = I::Item> {
        let mut taken = 0_u64;
        requests.inspect(move |_| {
            taken += 1;
            if taken.is_multiple_of(STEP) {
                self.0.inc(STEP);
            }
        })
    }

    /// Removes the bar.
    pub(in crate::command) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
