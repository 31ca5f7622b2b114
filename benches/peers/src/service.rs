//! The service that every peer offers, in the bench protocol. It echoes a request or burns its
//! cost, either at once or one quantum at a time.
//!
//! On emulated cores each request is charged for its way through the kernel, and each quantum but
//! the last for the yield after it.

use crate::cores::Cores;
use clap::ValueEnum;
use forebay::handler::builtin::Burner;
use forebay::inside::emulation::overheads::Overheads;
use forebay::inside::wire::{HEADER_BYTES, Header, Kind, Served};
use forebay::time::Nanos;

/// What a peer does with the cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Work {
    /// No cost: the payload is echoed.
    Echo,
    /// Emulated cores sleep for the cost.
    Sleep,
    /// The CPU burns the cost.
    Cpu,
}

/// The service, with the state that it needs.
#[derive(Debug)]
pub(crate) enum Service {
    /// Echoes the payload.
    Echo,
    /// Sleeps for the cost on one of these cores. A receive, a send and a yield have these prices.
    Emulated(Cores, Overheads),
    /// The thread that serves a request burns its cost.
    Burn(Burner),
}

/// A request that is being served.
#[derive(Debug)]
pub(crate) struct Job {
    header: Header,
    left: Nanos,
    /// The part of the price of its receive that is not yet charged.
    owed: Nanos,
    ready_at: Nanos,
}

impl Service {
    /// The service for `work`. `cores` is the number of emulated cores, which are charged `prices`.
    pub(crate) fn of(work: Work, cores: usize, prices: Overheads) -> Service {
        match work {
            Work::Echo => Service::Echo,
            Work::Sleep => Service::Emulated(Cores::new(cores), prices),
            Work::Cpu => Service::Burn(Burner::calibrated()),
        }
    }

    /// Whether the kernel must timestamp datagrams. Only emulated cores need to know since when a
    /// request has been ready.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, Service::Emulated(..))
    }

    /// Whether requests take no time. Then a reply may wait for the others of its batch.
    pub(crate) fn is_echo(&self) -> bool {
        matches!(self, Service::Echo)
    }

    /// Begins to serve the request in `datagram`, which has been ready since `ready_at`. `None` if
    /// the datagram is not a request; it gets no reply.
    pub(crate) fn begin(&self, datagram: &[u8], ready_at: Nanos) -> Option<Job> {
        let header = Header::parse(datagram).ok().filter(|header| header.kind != Kind::Reply)?;
        let owed = if let Service::Emulated(_, prices) = self { prices.receive } else { Nanos::ZERO };
        Some(Job { header, left: header.cost, owed, ready_at })
    }

    /// Burns at most `quantum` of the remaining cost of `job`; returns true if nothing is left.
    pub(crate) fn go_on(&self, job: &mut Job, quantum: Nanos) -> bool {
        let amount = job.left.min(quantum);
        job.left = job.left.minus(amount);
        let is_done = job.left == Nanos::ZERO;
        match self {
            Service::Echo => {}
            Service::Emulated(cores, prices) => {
                let after = if is_done { prices.send } else { prices.yield_ };
                let amount = std::mem::take(&mut job.owed).plus(amount).plus(after);
                job.ready_at = cores.burn(job.ready_at, amount, is_done);
            }
            Service::Burn(burner) => burner.burn(amount),
        }
        is_done
    }

    /// Serves the request in `datagram`, which has been ready since `ready_at`, without a pause,
    /// and turns it into its reply. Returns false if the datagram is not a request; it gets no
    /// reply.
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

/// The cost that the request in `datagram` states; zero if it is not a request.
pub(crate) fn cost(datagram: &[u8]) -> Nanos {
    Header::parse(datagram).map_or(Nanos::ZERO, |header| header.cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a request charged for its receive, each of its yields and its send, once each?
    #[test]
    fn a_request_pays_for_its_steps() {
        let ms = Nanos::from_millis;
        let prices = Overheads { receive: ms(4), yield_: ms(2), send: ms(8), ..Overheads::NONE };
        let request = Header::request(1, 0, ms(3));
        for (quantum, paid) in [(Nanos::MAX, ms(4 + 3 + 8)), (ms(1), ms(4 + 1 + 2 + 1 + 2 + 1 + 8))] {
            let service = Service::of(Work::Sleep, 1, prices);
            // The request is ready since before the core's time begins, so it ends at once.
            let mut job = service.begin(&request.emit(), Nanos::ZERO).expect("a request");
            while !service.go_on(&mut job, quantum) {}
            assert_eq!(job.ready_at, paid, "in quanta of {quantum}");
        }
    }
}
