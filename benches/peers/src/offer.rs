//! Requests of a mix, offered to a server by `loadgen`: its schedule, sender, receiver and verdict.

use crate::drive::{cpu_clock, cpu_time};
use anyhow::{Context, Result, anyhow};
use forebay::metrics::Block;
use forebay::overheads::Overheads;
use forebay::time::Nanos;
use forebay::workload::Workload;
use loadgen::compare::server_process::ServerProcess;
use loadgen::drive::Completed;
use loadgen::endpoint::Endpoint;
use loadgen::interrupt::Interrupt;
use loadgen::plan::{Plan, Retrying};
use loadgen::progress::Progress;
use loadgen::report::json::RunReport;
use loadgen::report::validity::Validity;
use loadgen::run;

/// What came of an offer.
#[derive(Debug)]
pub(crate) struct Offered {
    /// The figures after the warm-up, judged.
    pub(crate) report: RunReport,
    /// What was served in all.
    pub(crate) completed: Completed,
    /// CPU time of the server's process, from before the first request to after the last reply.
    pub(crate) server_cpu: Nanos,
    /// Time that its workers spent in handlers meanwhile, in microseconds; `None` where it does not tell.
    pub(crate) handlers_us: Option<f64>,
}

/// Offers `plan` to the `server` named `name`. The verdict sees the server's own counters where it shows them.
///
/// # Errors
/// If the system refuses, or the server is gone.
pub(crate) fn offer(name: &str, server: &ServerProcess, plan: &Plan) -> Result<Offered> {
    let endpoint = (server.admin != "none").then(|| Endpoint::new(&server.admin));
    let endpoint = endpoint.transpose().map_err(|failure| anyhow!("{failure}"))?;
    let busy_us =
        || -> Result<Option<f64>> { endpoint.as_ref().map_or(Ok(None), |endpoint| Ok(endpoint.latency()?.busy_us())) };
    let clock = cpu_clock(server.id())?;
    let busy_before = busy_us()?;
    let before = cpu_time(clock)?;
    let outcome = run::execute(plan, endpoint.as_ref(), &Interrupt::default(), Progress::new(name, plan, true));
    let outcome = outcome.map_err(|failure| anyhow!("{failure}")).with_context(|| name.to_owned())?;
    let server_cpu = cpu_time(clock)?.minus(before);
    let handlers_us = busy_us()?.zip(busy_before).map(|(after, before)| after - before);
    Ok(Offered { report: outcome.report, completed: outcome.completed, server_cpu, handlers_us })
}

impl Offered {
    /// Latency of a class in microseconds.
    ///
    /// # Errors
    /// If there is no such class.
    pub(crate) fn latency_us(&self, class: &str) -> Result<&Block> {
        self.report.latency_us.of(class).with_context(|| format!("no class {class}"))
    }

    /// Whether the generator's verdict is VALID.
    pub(crate) fn is_valid(&self) -> bool {
        self.report.verdict == Validity::Valid
    }
}

/// A plan for `server` of what all sections have in common; the rest is zero.
pub(crate) fn plan(server: &ServerProcess, workload: &Workload) -> Plan {
    Plan {
        target: server.udp,
        workload: workload.clone(),
        then: None,
        then_rate: None,
        rate: 0.0,
        duration: Nanos::ZERO,
        warmup: Nanos::ZERO,
        flows: 256,
        time_scale: 1,
        timeout: None,
        retrying: Retrying::NONE,
        // The p99.9 of all is one of the heavy requests. What is known of the light ones is told for each figure.
        percentile: None,
        is_round: false,
        precision: forebay::stats::PRECISION,
        seed: 0,
        payload_bytes: 0,
        deadline_us: 0,
        workers: None,
        server_apart: false,
        overheads: Overheads::NONE,
        capacity_rps: None,
    }
}

/// The workload of this name or form.
///
/// # Errors
/// If there is none.
pub(crate) fn workload(text: &str) -> Result<Workload> {
    text.parse().map_err(|error| anyhow!("{text}: {error}"))
}
