//! The service that every peer offers: the bench protocol, echoed or burnt, at once or a quantum at a time.

use crate::cores::Cores;
use clap::ValueEnum;
use forebay::handler::builtin::Burner;
use forebay::time::Nanos;
use forebay::wire::{HEADER_BYTES, Header, Kind, Served};

/// What a peer does with the cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// Nothing: the payload goes back.
    Echo,
    /// It is slept, on emulated cores.
    Sleep,
    /// It is burnt.
    Cpu,
}

/// What is done for a request.
#[derive(Debug)]
pub(crate) enum Service {
    /// Its payload goes back.
    Echo,
    /// Its cost is slept on one of these cores.
    Emulated(Cores),
    /// Its cost is burnt by the thread that serves it.
    Burn(Burner),
}

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct Job {
    header: Header,
    left: Nanos,
    ready_at: Nanos,
}

impl Service {
    /// A service of this work; `cores` is the number of emulated cores.
    pub(crate) fn of(work: Work, cores: usize) -> Service {
        match work {
            Work::Echo => Service::Echo,
            Work::Sleep => Service::Emulated(Cores::new(cores)),
            Work::Cpu => Service::Burn(Burner::calibrated()),
        }
    }

    /// Whether receive stamps are needed: only emulated cores ask since when a request has been ready.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, Service::Emulated(_))
    }

    /// Whether requests take no time, so that a reply may wait for the others of its batch.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Service::Echo)
    }

    /// Begins to serve the request in `datagram`, which has been ready since `ready_at`; `None` for what is no request
    /// and gets no reply.
    pub(crate) fn begin(&self, datagram: &[u8], ready_at: Nanos) -> Option<Job> {
        let header = Header::parse(datagram).ok().filter(|header| header.kind == Kind::Request)?;
        Some(Job { header, left: header.cost, ready_at })
    }

    /// Burns at most `quantum` of what is left of `job`; true when nothing is left.
    pub(crate) fn go_on(&self, job: &mut Job, quantum: Nanos) -> bool {
        let amount = job.left.min(quantum);
        job.left = job.left.minus(amount);
        let is_done = job.left == Nanos::ZERO;
        match self {
            Service::Echo => {}
            Service::Emulated(cores) => job.ready_at = cores.burn(job.ready_at, amount, is_done),
            Service::Burn(burner) => burner.burn(amount),
        }
        is_done
    }

    /// Serves the request in `datagram`, which has been ready since `ready_at`, without a pause, and turns it into its
    /// reply. False for what is no request and gets no reply.
    pub(crate) fn serve(&self, datagram: &mut [u8], ready_at: Nanos) -> bool {
        let Some(mut job) = self.begin(datagram, ready_at) else { return false };
        self.go_on(&mut job, Nanos::MAX);
        job.reply(datagram);
        true
    }
}

impl Job {
    /// Turns the request in `datagram` into its reply.
    pub(crate) fn reply(self, datagram: &mut [u8]) {
        let reply = Header { kind: Kind::Reply, served: Served::default(), ..self.header };
        datagram[..HEADER_BYTES].copy_from_slice(&reply.emit());
    }
}

/// The cost that the request in `datagram` states; zero for what is no request.
pub(crate) fn cost(datagram: &[u8]) -> Nanos {
    Header::parse(datagram).map_or(Nanos::ZERO, |header| header.cost)
}
