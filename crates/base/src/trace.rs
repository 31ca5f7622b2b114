//! A trace is a text file of the requests of one run: a header line, then one line per request. The
//! load generator and `GET /capture` write traces. The simulator and the load generator replay
//! them.
//!
//! ```text
//! # comments and blank lines mean nothing
//! forebay-trace/1 time-scale=1000 burn=sleep workers=14 seed=1 warmup=3s workload=extreme-bimodal
//! # intended sent class cost flow socket source
//! 1.204us 18.7us short 500ns 211 7 40
//! ```

use crate::fate::CLASS_NAMES;
use crate::overheads::Overheads;
use crate::time::Nanos;
use std::fmt;

/// The first word of a trace's header line: format and version.
pub const SCHEMA: &str = "forebay-trace/1";

/// The requests of one run. Times count from the start of the run, as the clock showed them, so
/// they include the factor `time_scale`. Costs are given without this factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Factor by which the run stretches every cost; above zero.
    pub time_scale: u64,
    /// Whether the server's cores were emulated (`--burn sleep`).
    pub emulated: bool,
    /// CPU time of each step on an emulated core, before the time scale. For real cores it is
    /// [`Overheads::NONE`], because their steps were not measured.
    pub overheads: Overheads,
    /// Number of the server's workers, which have one socket each; above zero.
    pub workers: u16,
    /// Seed from which the arrival schedule was drawn.
    pub seed: u64,
    /// Length of the warm-up: requests that were to be sent earlier were not measured.
    pub warmup: Nanos,
    /// Time from a request's arrival until its answer is worthless; `None` = no deadline.
    pub deadline: Option<Nanos>,
    /// The workload that the requests were drawn from, as one line of text.
    pub workload: String,
    /// Requests that reached the server but are missing in `requests`, mostly because their cost is
    /// unknown.
    pub left_out: u64,
    /// The requests in the order of sending; a trace that is read has at least one.
    pub requests: Vec<TraceRequest>,
}

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// When the request was to be sent, by the schedule. Latency counts from here.
    pub intended: Nanos,
    /// When the request was sent: not before `intended`, nor before the previous request.
    pub sent: Nanos,
    /// CPU time that the request asked for, before the time scale; above zero.
    pub cost: Nanos,
    /// Number that stands for the request's source port.
    pub flow: u16,
    /// The worker whose socket the kernel's hash of the flow chose.
    pub socket: u16,
    /// Number of the request's class, from 0.
    pub class: u8,
    /// Number that stands for the client's network. 0 = unknown; it is not written to the file.
    pub source: u16,
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
        writeln!(f, "# intended sent class cost flow socket source")?;
        self.requests.iter().try_for_each(|request| writeln!(f, "{request}"))
    }
}

impl fmt::Display for TraceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceRequest { intended, sent, cost, flow, socket, class, source } = self;
        write!(f, "{intended} {sent} {} {cost} {flow} {socket}", CLASS_NAMES[usize::from(*class)])?;
        if *source > 0 { write!(f, " {source}") } else { Ok(()) }
    }
}
