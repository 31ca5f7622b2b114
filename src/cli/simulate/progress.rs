//! Progress of the simulations: a bar on standard error, if that is a terminal.

use crate::lab::study::progress::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

/// A line that counts simulated requests.
#[derive(Debug)]
pub(in crate::cli) struct Bar(ProgressBar);

impl Bar {
    /// A bar for `requests` in all, or their upper bound. Of a search, whose length is unknown, it shows the current
    /// simulation instead.
    pub(in crate::cli) fn new(requests: Option<u64>, quiet: bool) -> Bar {
        if quiet || !stderr().is_terminal() {
            return Bar(ProgressBar::hidden());
        }
        let template = match requests {
            Some(_) => "[{bar:40}] {human_pos} of {human_len} requests, {eta} left",
            None => "{spinner} {msg} [{elapsed}, {human_pos} requests]",
        };
        let style = ProgressStyle::with_template(template).expect("a constant template").progress_chars("=> ");
        let bar = requests.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_style(style);
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
