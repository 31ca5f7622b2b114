//! Progress on standard error: a line before, and one after each measurement, with the time that is left.

use super::arguments::PoliciesArguments;
use super::matrix::Job;
use super::seconds;
use forebay::time::{Nanos, clock};

/// A server's start and end, the last replies, and the simulation, in seconds: a guess, until there is experience.
const BESIDE_S: f64 = 1.5;

/// Runs that take longer than this should be kept.
const UNKEPT_S: f64 = 300.0;

/// What was done and what is left.
pub(super) struct Progress {
    saturate_s: f64,
    run_s: f64,
    began: Nanos,
    count: usize,
    done: usize,
    /// Seconds as planned, of all and of what was done.
    planned_s: f64,
    planned_done_s: f64,
}

impl Progress {
    /// Says what is left to do.
    pub(super) fn begin(jobs: &[Job], arguments: &PoliciesArguments) -> Progress {
        let saturate_s = seconds(arguments.saturate) + BESIDE_S;
        let run_s = seconds(arguments.warmup.plus(arguments.duration)) + BESIDE_S;
        let mut progress = Progress {
            saturate_s,
            run_s,
            began: clock::now(),
            count: jobs.len(),
            done: 0,
            planned_s: 0.0,
            planned_done_s: 0.0,
        };
        // The sum of nothing is -0.
        progress.planned_s = jobs.iter().map(|job| progress.planned(job)).fold(0.0, |sum, job| sum + job);
        let runs = jobs.iter().filter(|job| matches!(job, Job::Run(..))).count();
        let longer = if arguments.once { "" } else { ", longer where INVALID runs are repeated" };
        eprintln!(
            "to measure: {} capacities and {runs} runs, about {}{longer}",
            jobs.len() - runs,
            shown(progress.planned_s)
        );
        if arguments.json.is_none() && !arguments.dry_run && progress.planned_s > UNKEPT_S {
            eprintln!("warning: without --json FILE an interrupt loses all of it");
        }
        progress
    }

    /// Says what came of `job`, and how long the others will take.
    pub(super) fn done(&mut self, job: &Job, said: &str) {
        self.done += 1;
        self.planned_done_s += self.planned(job);
        let left = left(self.planned_s, self.planned_done_s, seconds(clock::now().minus(self.began)));
        eprintln!("[{} of {}, {} left] {job}: {said}", self.done, self.count, shown(left));
    }

    fn planned(&self, job: &Job) -> f64 {
        match job {
            Job::Saturate(_) => self.saturate_s,
            Job::Run(..) => self.run_s,
        }
    }
}

/// The seconds that are left, if what was planned takes on as much longer as it has so far.
fn left(planned: f64, planned_done: f64, took: f64) -> f64 {
    (planned - planned_done).max(0.0) * (took / planned_done)
}

/// `2 h 05 min`, `5 min`, `40 s`.
fn shown(seconds: f64) -> String {
    let minutes = (seconds / 60.0).round() as u64;
    match seconds {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 3_570.0 => format!("{minutes} min"),
        _ => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_follows_from_what_it_took_so_far() {
        assert!((left(100.0, 20.0, 30.0) - 120.0).abs() < 1e-9);
        assert_eq!(left(100.0, 100.0, 30.0), 0.0);
        assert_eq!([40.0, 300.0, 3_575.0, 7_500.0].map(shown), ["40 s", "5 min", "1 h 00 min", "2 h 05 min"]);
    }
}
