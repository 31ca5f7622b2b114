//! A trace: the requests of one run as text, with a header line and one line for each request. The
//! load generator and `GET /capture` write it, the simulator and the load generator replay it.
//!
//! ```text
//! # comments and blank lines mean nothing
//! forebay-trace/1 time-scale=1000 burn=sleep workers=14 seed=1 warmup=3s workload=extreme-bimodal
//! # intended sent class cost flow socket
//! 1.204us 18.7us short 500ns 211 7
//! ```

use crate::emulation::overheads::Overheads;
use crate::fate::CLASS_NAMES;
use crate::time::Nanos;
use std::fmt;

/// The first word of a trace.
pub const SCHEMA: &str = "forebay-trace/1";

/// The requests of one run. All times but costs are on the clock of the run, where a cost lasts
/// `time_scale` times as long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Factor on every cost; above zero.
    pub time_scale: u64,
    /// Whether the server's cores were emulated (`--burn sleep`).
    pub emulated: bool,
    /// What each step cost an emulated core, before the time scale; [`Overheads::NONE`] on real
    /// ones, which were not measured.
    pub overheads: Overheads,
    /// The number of the server's workers, each with a socket; above zero.
    pub workers: u16,
    /// The seed of the schedule.
    pub seed: u64,
    /// The warm-up: requests with an earlier intended time were not measured.
    pub warmup: Nanos,
    /// The time from arrival to expiry of each request; `None` = never.
    pub deadline: Option<Nanos>,
    /// The workload that the requests were drawn from, on one line.
    pub workload: String,
    /// Requests that came to the server beside these, and are left out, most of them because their
    /// cost is not known.
    pub left_out: u64,
    /// The requests in the order of sending; at least one when a trace is read.
    pub requests: Vec<TraceRequest>,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When it should have been sent, after the start of the run: latency counts from here.
    pub intended: Nanos,
    /// When it was sent; no earlier than intended, and than the one before.
    pub sent: Nanos,
    /// The CPU time that it asked for, before the time scale; above zero.
    pub cost: Nanos,
    /// The number of its source port.
    pub flow: u16,
    /// The worker that owns the socket of its arrival, by the kernel's hash of its flow.
    pub socket: u16,
    /// The number of its class.
    pub class: u8,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let burn = if self.emulated { "sleep" } else { "cpu" };
        let Trace { time_scale, workers, seed, warmup, workload, .. } = self;
        write!(f, "{SCHEMA} time-scale={time_scale} burn={burn} ")?;
        if self.overheads != Overheads::NONE {
            write!(f, "overheads={} ", self.overheads.text())?;
        }
        write!(f, "workers={workers} seed={seed} warmup={warmup} ")?;
        if let Some(deadline) = self.deadline {
            write!(f, "deadline={deadline} ")?;
        }
        if self.left_out > 0 {
            write!(f, "left-out={} ", self.left_out)?;
        }
        writeln!(f, "workload={workload}")?;
        writeln!(f, "# intended sent class cost flow socket")?;
        self.requests.iter().try_for_each(|request| writeln!(f, "{request}"))
    }
}

impl fmt::Display for TraceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceRequest { intended, sent, cost, flow, socket, class } = self;
        write!(f, "{intended} {sent} {} {cost} {flow} {socket}", CLASS_NAMES[usize::from(*class)])
    }
}
