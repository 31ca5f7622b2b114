//! The service that every peer offers: the bench protocol, echoed or burnt on emulated cores.

use crate::cores::Cores;
use forebay::time::Nanos;
use forebay::wire::{HEADER_BYTES, Header, Kind, Served};

/// What is done for a request.
#[derive(Debug)]
pub(crate) enum Service {
    /// Its payload goes back.
    Echo,
    /// Its cost is burnt on one of these cores.
    Spin(Cores),
}

impl Service {
    /// `echo` for no emulated cores, otherwise `spin`.
    pub(crate) fn on_cores(cores: usize) -> Service {
        if cores == 0 { Service::Echo } else { Service::Spin(Cores::new(cores)) }
    }

    /// Whether receive stamps are needed: only emulated cores ask since when a request has been ready.
    pub(crate) fn is_emulated(&self) -> bool {
        matches!(self, Service::Spin(_))
    }

    /// Serves the request in `datagram`, which has been ready since `ready_at`, and turns it into its reply. False for
    /// what is no request and gets no reply.
    pub(crate) fn serve(&self, datagram: &mut [u8], ready_at: Nanos) -> bool {
        let Ok(header) = Header::parse(datagram) else { return false };
        if header.kind != Kind::Request {
            return false;
        }
        if let Service::Spin(cores) = self {
            cores.burn(ready_at, header.cost);
        }
        let reply = Header { kind: Kind::Reply, served: Served::default(), ..header };
        datagram[..HEADER_BYTES].copy_from_slice(&reply.emit());
        true
    }
}

/// The cost that the request in `datagram` states; zero for what is no request.
pub(crate) fn cost(datagram: &[u8]) -> Nanos {
    Header::parse(datagram).map_or(Nanos::ZERO, |header| header.cost)
}
