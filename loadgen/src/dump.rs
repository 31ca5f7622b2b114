//! What a run offered, for the simulator: the schedule, how it was kept, and the server's socket of each flow.

use crate::arguments::RunArguments;
use crate::endpoint::ServerView;
use crate::failure::Failure;
use crate::plan::Plan;
use crate::run::Course;
use anyhow::{Context, Result};
use forebay::time::Nanos;
use forebay::workload::{Offered, OfferedRequest};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// What the run of `plan` with this `course` offered to a server with emulated cores or not; `socket_of` is the socket of
/// each flow.
pub(crate) fn offered(plan: &Plan, emulated: bool, workers: u16, socket_of: &[u16], course: &Course) -> Offered {
    let requests = course.schedule.iter().zip(&course.slips).map(|(request, slip)| OfferedRequest {
        intended: request.at,
        sent: request.at.plus(*slip),
        cost: Nanos::new(request.cost.get() / plan.time_scale),
        flow: request.flow,
        socket: socket_of[usize::from(request.flow)],
        class: request.class,
    });
    Offered {
        time_scale: plan.time_scale,
        emulated,
        workers,
        seed: plan.seed,
        warmup: plan.warmup,
        deadline: (plan.deadline_us > 0).then(|| Nanos::from_micros(plan.deadline_us.into())),
        workload: plan.offered().replace(char::is_control, " "),
        requests: requests.collect(),
    }
}

/// Writes `offered` to `path`; `flag` is who asked for it.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(flag: &str, path: &Path, offered: &Offered) -> Result<()> {
    let written = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        write!(file, "{offered}")?;
        file.flush()
    };
    written().with_context(|| format!("{flag} {} cannot be written", path.display()))
}

/// Whether the server that `run --dump` drives tells the socket of each flow, which is known under `isolated` only.
///
/// # Errors
/// A usage failure under every other policy.
pub(crate) fn check(arguments: &RunArguments, server: Option<&ServerView>) -> Result<(), Failure> {
    let policy = server.and_then(ServerView::policy);
    match policy.as_deref() {
        _ if arguments.dump.is_none() => Ok(()),
        Some("isolated") => Ok(()),
        policy => Err(Failure::usage(format!(
            "--dump needs a server under policy isolated, whose replies tell the socket of each flow, and the policy is {}: \
             start it with --policy isolated, or use compare --dump, which asks a server of its own",
            policy.unwrap_or("unknown")
        ))),
    }
}
