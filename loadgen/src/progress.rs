//! The progress of a run, on standard error: a line that renews itself on a terminal, a plain line now and then
//! elsewhere.

use crate::drive::live::Live;
use crate::plan::Plan;
use crate::text::grouped;
use forebay::time::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write, stderr};

/// The interval of plain lines.
const PLAIN_EVERY: Nanos = Nanos::from_secs(5);

/// Shows the progress of a run.
#[derive(Debug)]
pub struct Progress {
    label: String,
    warmup: Nanos,
    end: Nanos,
    line: Line,
}

#[derive(Debug)]
enum Line {
    Quiet,
    Plain { next: Nanos },
    Bar(ProgressBar),
}

impl Progress {
    /// Progress of the run of `plan`; `label` begins each line.
    pub fn new(label: &str, plan: &Plan, quiet: bool) -> Progress {
        let end = plan.warmup.plus(plan.duration);
        let line = match (quiet, stderr().is_terminal()) {
            (true, _) => Line::Quiet,
            (false, false) => Line::Plain { next: PLAIN_EVERY },
            (false, true) => {
                let style = ProgressStyle::with_template("{prefix} [{bar:30}] {msg}").expect("a constant template");
                let bar = ProgressBar::new(end.get()).with_style(style.progress_chars("=> "));
                Line::Bar(bar.with_prefix(label.to_owned()))
            }
        };
        Progress { label: label.to_owned(), warmup: plan.warmup, end, line }
    }

    /// Shows the state `elapsed` after the start.
    pub(crate) fn show(&mut self, elapsed: Nanos, live: &Live) {
        let message = || {
            let (sent, replied) = (live.sent(), live.replied());
            let phase = match elapsed {
                elapsed if elapsed < self.warmup => "warming up",
                elapsed if elapsed < self.end => "measuring",
                _ => "waiting for the last replies",
            };
            let seconds = elapsed.min(self.end).as_secs_f64();
            format!(
                "{seconds:.0} of {:.0} s, {} sent, {} outstanding, {phase}",
                self.end.as_secs_f64(),
                grouped(sent),
                grouped(sent.saturating_sub(replied))
            )
        };
        match &mut self.line {
            Line::Quiet => {}
            Line::Plain { next } => {
                if elapsed >= *next {
                    // A line that cannot be written is no reason to end a run.
                    let _ = writeln!(stderr(), "{}: {}", self.label, message());
                    *next = next.plus(PLAIN_EVERY);
                }
            }
            Line::Bar(bar) => {
                bar.set_position(elapsed.get());
                bar.set_message(message());
            }
        }
    }

    /// Removes the line.
    pub(crate) fn finish(self) {
        if let Line::Bar(bar) = self.line {
            bar.finish_and_clear();
        }
    }
}
