//! One server on real cores, offered requests by a generator on others: its capacity, and runs below it.

use crate::cpus::Division;
use crate::offer::{Offered, offer, plan};
use crate::others::{Moment, busy_seconds_of};
use crate::pauses;
use anyhow::{Result, bail};
use forebay::time::{Nanos, clock};
use forebay::workload::Workload;
use loadgen::compare::server_process::ServerProcess;
use loadgen::plan::Plan;
use loadgen::report::validity::RUN_QUEUE_SHARE_MAX;
use loadgen::saturation::{Capacity, OVERLOAD, most};
use std::thread;
use std::time::Duration;

/// The generator's CPUs: one spins to send, one receives.
pub(crate) const GENERATOR_CPUS: usize = 2;
/// After so long a request counts as unanswered.
const TIMEOUT: Nanos = Nanos::from_secs(3);
/// A run does not count as valid when others took more than this share of the server's CPUs.
pub(crate) const OTHERS_SHARE_MAX: f64 = 0.03;

/// A run that is not valid is repeated, up to this many runs.
const TRIES: usize = 2;
/// The same for a capacity, which takes less time, and on which more depends.
const CAPACITY_TRIES: usize = 5;
/// Before a further try, the machine is given this long to be left alone ...
const QUIET_MAX: Nanos = Nanos::from_secs(10);
/// ... which it is when others use less than this many of its CPUs.
const QUIET_CPUS: f64 = 0.2;
/// For so long it is looked at.
const MOMENT: Duration = Duration::from_millis(500);

/// A server, and what it is offered.
pub(crate) struct Trial<'a> {
    /// As messages show it.
    pub(crate) name: &'a str,
    /// On the server's CPUs of `division`.
    pub(crate) server: &'a ServerProcess,
    /// CPUs of server and generator; not shared.
    pub(crate) division: &'a Division,
    /// The mix of requests.
    pub(crate) workload: &'a Workload,
    /// The server's cores, and workers.
    pub(crate) cores: usize,
    /// Of the schedules.
    pub(crate) seed: u64,
}

/// One run, and what others did meanwhile.
pub(crate) struct Run {
    /// The figures.
    pub(crate) offered: Offered,
    /// The share of the server's CPUs that others took: other processes in the run, or the host around it, whichever is more.
    pub(crate) others: f64,
    /// Whether the generator's verdict is VALID and others took no more than [`OTHERS_SHARE_MAX`].
    pub(crate) is_valid: bool,
}

impl Trial<'_> {
    /// The most that the server completes while it is offered more than it can, for `span` at each load, and the largest
    /// share of its CPUs that others took meanwhile.
    ///
    /// # Errors
    /// See [`offer`].
    pub(crate) fn capacity(&self, span: Nanos, patient: bool) -> Result<(Capacity, f64)> {
        let mean_s = self.workload.mean().as_secs_f64();
        let mut others = 0.0_f64;
        let capacity = most(OVERLOAD * self.cores as f64 / mean_s, |rps| -> Result<Capacity> {
            // A generator that is late does not matter to a server with more to do than it can.
            let run = repeated(if patient { CAPACITY_TRIES } else { 1 }, || {
                let run = self.run(rps * mean_s, Nanos::ZERO, span)?;
                let waited = run.offered.report.run_queue_share.is_some_and(|share| share > RUN_QUEUE_SHARE_MAX);
                Ok(Run { is_valid: run.others <= OTHERS_SHARE_MAX && !waited, ..run })
            })?;
            others = others.max(run.others);
            let sending = Nanos::new((run.offered.report.duration_s * 1e9) as u64);
            let run_queue_share = run.offered.report.run_queue_share;
            Ok(Capacity { run_queue_share, ..Capacity::of(&run.offered.completed, sending, mean_s) })
        })?;
        anyhow::ensure!(capacity.cpus > 0.0, "{} completed nothing while it was saturated", self.name);
        Ok((capacity, others))
    }

    /// Offers this many CPUs' worth of work.
    ///
    /// # Errors
    /// See [`offer`].
    pub(crate) fn run(&self, offered_cpus: f64, warmup: Nanos, duration: Nanos) -> Result<Run> {
        let Division::Apart { server, generator } = self.division else { bail!("there are too few CPUs") };
        let plan = Plan {
            rate: offered_cpus / self.workload.mean().as_secs_f64(),
            duration,
            warmup,
            timeout: Some(TIMEOUT),
            seed: self.seed,
            workers: u16::try_from(self.cores).ok(),
            server_apart: true,
            ..plan(self.server, self.workload)
        };
        let paused_before = pauses::largest_share(server, generator)?;
        let (began, busy) = (clock::now(), busy_seconds_of(server)?);
        let offered = offer(self.name, self.server, &plan)?;
        let took = clock::now().minus(began).as_secs_f64() * self.cores as f64;
        let others = busy_seconds_of(server)? - busy - offered.server_cpu.as_secs_f64();
        let paused = (paused_before + pauses::largest_share(server, generator)?) / 2.0;
        let others = (others / took).max(paused);
        let is_valid = offered.is_valid() && others <= OTHERS_SHARE_MAX;
        Ok(Run { offered, others, is_valid })
    }
}

/// The first valid one of some tries if `patient`, or the last; which one it is does not depend on what the server did.
///
/// # Errors
/// See [`offer`].
pub(crate) fn undisturbed(patient: bool, run: impl Fn() -> Result<Run>) -> Result<Run> {
    repeated(if patient { TRIES } else { 1 }, run)
}

fn repeated(tries: usize, run: impl Fn() -> Result<Run>) -> Result<Run> {
    let mut last = run()?;
    for _ in 1..tries {
        if last.is_valid {
            break;
        }
        wait_for_quiet()?;
        last = run()?;
    }
    Ok(last)
}

/// Warns if others use the machine now.
///
/// # Errors
/// If the system does not tell.
pub(crate) fn warn_if_busy() -> Result<()> {
    let before = Moment::now()?;
    thread::sleep(MOMENT);
    let others = Moment::now()?.others_since(&before);
    if others >= QUIET_CPUS {
        eprintln!(
            "warning: other processes use {others:.1} CPUs: expect INVALID runs, or leave the machine to this one"
        );
    }
    Ok(())
}

/// Waits until the machine was left alone for a moment, or for [`QUIET_MAX`].
fn wait_for_quiet() -> Result<()> {
    let deadline = clock::now().plus(QUIET_MAX);
    let mut before = Moment::now()?;
    while clock::now() < deadline {
        thread::sleep(MOMENT);
        let now = Moment::now()?;
        if now.others_since(&before) < QUIET_CPUS {
            break;
        }
        before = now;
    }
    Ok(())
}
