//! `peers policies`: Forebay's policies beside one another on real cores, and beside virtual time.
//!
//! What does each policy do for light and heavy requests on hardware, what does it cost, and does the simulator say the
//! same? Method: `benches/real.md`, whose tables this writes.

mod arguments;
mod matrix;
mod mix;
mod progress;
mod results;
mod section;
mod tables;
mod virtual_time;

pub(crate) use arguments::PoliciesArguments;

use crate::cpus::Division;
use crate::report::{commit, machine};
use crate::trial::{GENERATOR_CPUS, OTHERS_SHARE_MAX, Run, Trial, undisturbed, warn_if_busy};
use anyhow::{Context, Result, anyhow};
use forebay::time::Nanos;
use loadgen::compare::server_process::ServerProcess;
use matrix::{Cell, Job};
use progress::Progress;
use results::{CapacityEntry, Conditions, Figures, Results, RunEntry};
use section::Section;

/// Measures what is asked for and not in the results yet, and writes the tables.
///
/// # Errors
/// What is wrong with the flags, before anything is measured; afterwards what went wrong, with all runs so far kept.
pub(crate) fn policies(arguments: &PoliciesArguments) -> Result<()> {
    let section = arguments.into.as_deref().map(Section::open).transpose()?;
    let jobs = matrix::jobs(arguments)?;
    let conditions = Conditions {
        machine: machine(),
        commit: commit(),
        overheads: arguments.overheads.text(),
        duration_ms: arguments.duration.get() / 1_000_000,
        warmup_ms: arguments.warmup.get() / 1_000_000,
    };
    let mut results = Results::open(arguments.json.as_deref(), conditions)?;
    let left: Vec<Job> = jobs.into_iter().filter(|job| !results.has(job)).collect();
    let mut progress = Progress::begin(&left, arguments);
    if !arguments.dry_run {
        warn_if_busy()?;
        for job in &left {
            let said = carry_out(arguments, job, &mut results).with_context(|| job.to_string())?;
            results.write()?;
            progress.done(job, &said);
        }
    }
    let text = tables::render(&results);
    match section {
        Some(section) => section.fill(&text),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Carries out `job`, notes it, and says what came of it in a few words.
fn carry_out(arguments: &PoliciesArguments, job: &Job, results: &mut Results) -> Result<String> {
    let cell = job.cell();
    let division = Division::new(cell.cores, GENERATOR_CPUS)?;
    let workload = cell.mix.workload()?;
    let server_arguments = cell.server_arguments(&workload);
    let server = division.on_server_cpus(|| ServerProcess::start(&server_arguments, false));
    let server = server.map_err(|failure| anyhow!("{failure}"))?;
    let trial = Trial {
        name: cell.policy.name(),
        server: &server,
        division: &division,
        workload: &workload,
        cores: cell.cores,
        seed: cell.seed,
    };
    let patient = !arguments.once;
    match *job {
        Job::Saturate(cell) => {
            let measured = division.on_generator_cpus(|| trial.capacity(arguments.saturate, patient));
            // Killed when dropped, not stopped: what the server still holds shows nothing.
            let (capacity, others) = measured?;
            let entry = CapacityEntry::new(&cell, &capacity, others);
            let said = entry.said();
            results.note_capacity(entry);
            Ok(said)
        }
        Job::Run(cell, load) => {
            let base = results.capacity_of_base(&cell).context("the capacity that loads are shares of is missing")?;
            let (warmup, duration) = (arguments.warmup, arguments.duration);
            let run = division
                .on_generator_cpus(|| undisturbed(patient, || trial.run(load * base.cpus, warmup, duration)))?;
            server.stop()?;
            let entry = entry(arguments, &cell, load, &run, base.objection())?;
            let said = entry.said();
            results.note_run(entry);
            Ok(said)
        }
    }
}

/// What is kept of `run`.
fn entry(
    arguments: &PoliciesArguments,
    cell: &Cell,
    load: f64,
    run: &Run,
    objection: Option<String>,
) -> Result<RunEntry> {
    let Run { offered, others, .. } = run;
    let report = &offered.report;
    let (light, heavy) = (report.slowdown.of(mix::LIGHT), report.slowdown.of(cell.mix.heavy()));
    let light = Figures::of(light.context("no light requests")?);
    let heavy = Figures::of(heavy.context("no heavy requests")?);
    let mut reasons = report.reasons.clone();
    if *others > OTHERS_SHARE_MAX {
        reasons.push(format!("others took {:.1} % of the server's CPUs, above 3 %", others * 100.0));
    }
    reasons.extend(objection);
    let work = offered.completed.work.as_secs_f64();
    let over = |seconds: f64| (seconds > 0.0).then(|| work / seconds);
    let requests = (arguments.warmup, arguments.duration);
    Ok(RunEntry {
        cell: cell.key(),
        load,
        rate_rps: report.offered_rps,
        light,
        heavy,
        useful_over_cpu: over(offered.server_cpu.as_secs_f64()),
        useful_over_handlers: offered.handlers_us.and_then(|us| over(us / 1e6)),
        run_queue_share: report.run_queue_share,
        reasons,
        virtual_time: virtual_time::simulated(cell, report.offered_rps, requests, &arguments.overheads)?,
    })
}

/// Seconds of `time`.
fn seconds(time: Nanos) -> f64 {
    time.as_secs_f64()
}
