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
    /// Time of the runs before, and of those after.
    before: Nanos,
    after: Nanos,
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
                let style = ProgressStyle::with_template("[{bar:16}] {msg}").expect("a constant template");
                Line::Bar(ProgressBar::new(end.get()).with_style(style.progress_chars("=> ")))
            }
        };
        let (before, after) = (Nanos::ZERO, Nanos::ZERO);
        Progress { label: label.to_owned(), warmup: plan.warmup, end, before, after, line }
    }

    /// The same for the run with that number, from 0, of `runs` equal ones, each of which takes `beside` besides.
    pub(crate) fn of_runs(mut self, number: usize, runs: usize, beside: Nanos) -> Progress {
        let one = self.end.plus(beside);
        [self.before, self.after] = [number, runs - number - 1].map(|others| one.times(others as u64));
        self.label = format!("{} {}/{runs}", self.label, number + 1);
        match &mut self.line {
            Line::Quiet => {}
            Line::Plain { next } => *next = Nanos::new(self.end.get() / 5 * 4),
            Line::Bar(bar) => bar.set_length(self.before.plus(self.end).plus(self.after).get()),
        }
        self
    }

    /// Shows the state `elapsed` after the start.
    pub(crate) fn show(&mut self, elapsed: Nanos, live: &Live) {
        let line = self.text(elapsed, live);
        match &mut self.line {
            Line::Quiet => {}
            Line::Plain { next } => {
                if elapsed >= *next {
                    // A line that cannot be written is no reason to end a run.
                    let _ = writeln!(stderr(), "{line}");
                    *next = next.plus(PLAIN_EVERY);
                }
            }
            Line::Bar(bar) => {
                bar.set_position(self.before.plus(elapsed.min(self.end)).get());
                bar.set_message(line);
            }
        }
    }

    /// For 80 columns with the bar before it.
    fn text(&self, elapsed: Nanos, live: &Live) -> String {
        let (sent, replied) = (live.sent(), live.replied());
        let phase = match elapsed {
            elapsed if elapsed < self.warmup => ", warm-up",
            elapsed if elapsed < self.end => "",
            _ => ", last replies",
        };
        let passed = elapsed.min(self.end);
        let left = self.end.minus(passed).plus(self.after).as_secs_f64();
        let rate = sent as f64 / passed.as_secs_f64().max(0.1);
        format!(
            "{}: {left:.0} s left, {}/s, {} open{phase}",
            self.label,
            grouped(rate as u64),
            grouped(sent.saturating_sub(replied))
        )
    }

    /// Removes the line.
    pub(crate) fn finish(self) {
        if let Line::Bar(bar) = self.line {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the line tell how long all runs still take, and what has come so far?
    #[test]
    fn a_line_counts_the_runs_after_it() {
        let plan = Plan { warmup: Nanos::from_secs(1), duration: Nanos::from_secs(3), ..crate::plan::test_plan() };
        let progress = Progress::new("auto", &plan, true).of_runs(1, 4, Nanos::from_millis(500));
        let live = Live::default();
        (0..200).for_each(|_| live.count_sent());
        (0..197).for_each(|_| live.count_replied());
        let said = progress.text(Nanos::from_secs(2), &live);
        assert_eq!(said, "auto 2/4: 11 s left, 100/s, 3 open");
        assert!(progress.text(Nanos::ZERO, &live).ends_with(", warm-up"));
    }
}
