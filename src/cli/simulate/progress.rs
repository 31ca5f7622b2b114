//! Progress of the simulations: a bar on standard error, if that is a terminal.

use crate::lab::study::progress::Progress;
use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

/// A bar that counts simulated requests.
#[derive(Debug)]
pub(in crate::cli) struct Bar(ProgressBar);

impl Bar {
    /// A bar for `requests` in all; where that number is unknown, its upper bound.
    pub(in crate::cli) fn new(requests: u64, quiet: bool) -> Bar {
        if quiet || !stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let style =
            ProgressStyle::with_template("[{bar:40}] {human_pos} of {human_len} requests, {whole_per_sec}, {eta} left");
        // The built-in one shows fractions of a request.
        let whole = |state: &ProgressState, text: &mut dyn fmt::Write| {
            let _ = write!(text, "{}/s", HumanCount(state.per_sec() as u64));
        };
        let style = style.expect("a constant template").progress_chars("=> ").with_key("whole_per_sec", whole);
        Bar(ProgressBar::new(requests).with_style(style))
    }

    /// A spinner for a search of unknown length: shows the current simulation, and the number of requests done.
    pub(in crate::cli) fn of_search(quiet: bool) -> Bar {
        if quiet || !stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{spinner} {msg} [{elapsed}, {human_pos} requests]");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a constant template"));
        // Without it the line would stand still in a simulation that takes long to set up.
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar(bar)
    }

    /// Removes the bar.
    pub(in crate::cli) fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn simulated(&self, requests: u64) {
        self.0.inc(requests);
    }

    fn looks_at(&self, what: String) {
        self.0.set_message(what);
    }
}
