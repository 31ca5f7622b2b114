//! The progress of a run: a line on standard error, if that is a terminal.

use crate::drive::live::Live;
use crate::plan::Plan;
use crate::text::{grouped, time};
use forebay::time::Nanos;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};

/// Shows the progress of a run.
#[derive(Debug)]
pub struct Progress {
    label: String,
    warmup: Nanos,
    end: Nanos,
    /// The lengths of earlier and of later runs.
    before: Nanos,
    after: Nanos,
    bar: ProgressBar,
}

impl Progress {
    /// Progress of the run of `plan`; `label` begins each line.
    pub fn new(label: &str, plan: &Plan, quiet: bool) -> Progress {
        let end = plan.warmup.plus(plan.duration);
        let style = ProgressStyle::with_template("{prefix}[{bar:8}] {msg}").expect("a constant template");
        let is_shown = !quiet && stderr().is_terminal();
        let bar = if is_shown { ProgressBar::new(end.get()) } else { ProgressBar::hidden() };
        let bar = bar.with_style(style.progress_chars("=> "));
        let (before, after) = (Nanos::ZERO, Nanos::ZERO);
        Progress { label: label.to_owned(), warmup: plan.warmup, end, before, after, bar }
    }

    /// The same for run `number` (from 0) of `runs` equal runs. Each takes `beside` more than its
    /// plan.
    pub(crate) fn of_runs(mut self, number: usize, runs: usize, beside: Nanos) -> Progress {
        let one = self.end.plus(beside);
        [self.before, self.after] = [number, runs - number - 1].map(|others| one.times(others as u64));
        self.label = format!("{} {}/{runs}", self.label, number + 1);
        self.bar.set_length(self.before.plus(self.end).plus(self.after).get());
        self
    }

    /// The same, shown below `text`.
    pub(crate) fn below(self, text: &str) -> Progress {
        self.bar.set_prefix(text.to_owned());
        self
    }

    /// Shows the state `elapsed` after the start.
    pub(crate) fn show(&self, elapsed: Nanos, live: &Live) {
        self.bar.set_position(self.before.plus(elapsed.min(self.end)).get());
        self.bar.set_message(self.text(elapsed, live));
    }

    /// The text after the bar, for 80 columns in all.
    fn text(&self, elapsed: Nanos, live: &Live) -> String {
        let sent = live.sent();
        let phase = match elapsed {
            elapsed if elapsed < self.warmup => ", warm-up",
            elapsed if elapsed < self.end => "",
            _ => ", last replies",
        };
        let passed = elapsed.min(self.end);
        let left = self.end.minus(passed).plus(self.after).as_secs_f64();
        let rate = sent as f64 / passed.as_secs_f64().max(0.1);
        let latency = |quantile| live.quantile(quantile).map(Nanos::as_micros_f64);
        let percentiles = match [0.5, 0.99].map(latency) {
            [Some(p50), Some(p99)] => format!(", p50 {}, p99 {}", time(Some(p50)), time(Some(p99))),
            _ => String::new(),
        };
        format!(
            "{}: {left:.0} s left, {}/s{percentiles}, {} lost{phase}",
            self.label,
            grouped(rate as u64),
            grouped(live.lost())
        )
    }

    /// Removes the line.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
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
        let live = Live::of(0);
        (0..200).for_each(|_| live.count_sent());
        live.note_lost(3);
        let said = progress.text(Nanos::from_secs(2), &live);
        assert_eq!(said, "auto 2/4: 11 s left, 100/s, 3 lost");
        live.note_latency(0, Nanos::from_millis(3));
        let said = progress.text(Nanos::from_secs(2), &live);
        assert_eq!(said, "auto 2/4: 11 s left, 100/s, p50 2.88 ms, p99 2.88 ms, 3 lost");
        assert!(progress.text(Nanos::ZERO, &live).ends_with(", warm-up"));
    }
}
