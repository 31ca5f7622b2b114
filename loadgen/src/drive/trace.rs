//! Writing the trace of a run for the simulator: the schedule, its lateness, and the server's socket of each flow.

use super::flows::sockets_of;
use crate::drive::Exchange;
use crate::endpoint::ServerView;
use crate::failure::Failure;
use crate::plan::Plan;
use forebay::cli::results::Output;
use forebay::lab::workload::{Trace, TraceRequest};
use forebay::time::Nanos;
use std::net::UdpSocket;
use std::path::Path;

/// The facts about a server that `run --dump` collects before the run, so that the trace can be replayed.
#[derive(Debug)]
pub(crate) struct Dump {
    /// Where the trace is written.
    pub(crate) output: Output,
    emulated: bool,
    workers: u16,
    socket_of: Vec<u16>,
}

impl Dump {
    /// Opens the file at `path` after learning the socket of each of `flows` from the `server` of `plan`.
    ///
    /// # Errors
    /// A usage failure if the server's policy is not `isolated`: only its replies name a flow's socket. The same if
    /// the number of its workers is unknown, or too small for a reply, or if the file cannot be written. Otherwise
    /// the errors of [`sockets_of`].
    pub(crate) fn prepare(
        path: &Path,
        server: Option<&ServerView>,
        plan: &Plan,
        flows: &[UdpSocket],
    ) -> Result<Dump, Failure> {
        let policy = server.and_then(ServerView::policy);
        if policy.as_deref() != Some("isolated") {
            return Err(Failure::usage(format!(
                "--dump needs a server under policy isolated, whose replies tell the socket of each flow, and the policy is \
                 {}: start it with --policy isolated, or use compare --dump, which asks a server of its own",
                policy.as_deref().unwrap_or("unknown")
            )));
        }
        let workers = plan.workers.ok_or_else(|| {
            Failure::usage("--dump needs the number of workers, which --admin does not tell: add --workers N")
        })?;
        let socket_of = sockets_of("--dump", flows)?;
        if let Some(worker) = socket_of.iter().find(|worker| **worker >= workers) {
            return Err(Failure::usage(format!(
                "--dump: a reply of --target {} names worker {worker}, but by --admin or --workers there are {workers}, \
                 numbered from 0: let --admin and --target name the same server, or correct --workers",
                plan.target
            )));
        }
        let emulated = server.and_then(ServerView::burn).as_deref() == Some("sleep");
        let output = Output::open("--dump", path)?;
        Ok(Dump { output, emulated, workers, socket_of })
    }

    /// Writes the trace of the run of `plan` with this `exchange`.
    ///
    /// # Errors
    /// See [`write`].
    pub(crate) fn write(&self, plan: &Plan, exchange: &Exchange) -> Result<(), Failure> {
        write(&self.output, &offered(plan, self.emulated, self.workers, &self.socket_of, exchange))
    }
}

/// The trace of the run of `plan` with this `exchange`, without the requests that our own kernel did not take.
/// `emulated` says whether the server has emulated cores; `socket_of` is the socket of each flow.
pub(crate) fn offered(plan: &Plan, emulated: bool, workers: u16, socket_of: &[u16], exchange: &Exchange) -> Trace {
    let attempts = exchange.schedule.iter().zip(&exchange.sent.slips).zip(&exchange.sent.taken);
    let sent = attempts.filter_map(|(request, taken)| taken.then_some(request));
    let requests = sent.map(|(request, slip)| TraceRequest {
        intended: request.at,
        sent: request.at.plus(*slip),
        cost: Nanos::new(request.cost.get() / plan.time_scale),
        flow: request.flow,
        socket: socket_of[usize::from(request.flow)],
        class: request.class,
    });
    Trace {
        time_scale: plan.time_scale,
        emulated,
        overheads: plan.overheads,
        workers,
        seed: plan.seed,
        warmup: plan.warmup,
        deadline: (plan.deadline_us > 0).then(|| Nanos::from_micros(plan.deadline_us.into())),
        left_out: 0,
        workload: plan.offered().replace(char::is_control, " "),
        requests: requests.collect(),
    }
}

/// Writes `offered` to `output`.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn write(output: &Output, offered: &Trace) -> Result<(), Failure> {
    output.write(|to| write!(to, "{offered}")).map_err(Failure::Unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::receiver::Replies;
    use crate::drive::schedule::Request;
    use crate::drive::sender::Sent;
    use crate::plan::test_plan;

    #[test]
    fn what_was_not_sent_was_not_offered() {
        let request = |ms| Request { at: Nanos::from_millis(ms), cost: Nanos::from_micros(1), flow: 0, class: 0 };
        let schedule: Vec<Request> = (0..4).map(request).collect();
        let (slips, taken) = (vec![Nanos::from_micros(5); 4], vec![true, false, true, true]);
        let sent = Sent { slips, taken, ..Sent::default() };
        let exchange = Exchange { start: Nanos::ZERO, schedule, sent, replies: Replies::default() };
        let offered = offered(&test_plan(), false, 2, &[1], &exchange);
        let sent: Vec<u64> = offered.requests.iter().map(|request| request.sent.get() / 1_000).collect();
        assert_eq!(sent, [5, 2_005, 3_005]);
    }
}
