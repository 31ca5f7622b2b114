//! The flow map of a run: the server socket that the kernel chooses for each client port. `compare`
//! measures it before the run.
//!
//! The kernel chooses among the sockets on one port by a hash of both addresses and ports. The
//! order in which the sockets were opened counts too. So if servers have the same port and number
//! of workers, a flow always comes to the socket of the same worker, whatever the policy. To find
//! this worker, `compare` starts a server with policy `isolated`: the worker that owns a socket
//! answers, and its reply names it.

use crate::compare::ANY_PORT;
use crate::compare::server_process::ServerProcess;
use crate::compare::server_settings::ServerSettings;
use crate::drive::flows;
use crate::failure::Failure;
use crate::profile::sockets_of;
use anyhow::{Context, Result};
use forebay::inside::emulation::overheads::Overheads;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// Under this policy, the worker that owns a socket serves all requests that arrive there.
const OWNED: &str = "isolated";

/// Flows, and the server's socket for each.
#[derive(Debug)]
pub(crate) struct FlowMap {
    /// The address where the server has to listen.
    pub(crate) address: SocketAddr,
    /// The client sockets, one for each flow.
    pub(crate) flows: Vec<UdpSocket>,
    /// For each flow, the number of the server's socket, which is also its worker's number.
    pub(crate) socket_of: Vec<u16>,
    /// Keeps the port from other programs while no server listens.
    _reservation: UdpSocket,
}

impl FlowMap {
    /// Starts a server with `settings`, finds the sockets of its flows, and stops it.
    ///
    /// # Errors
    /// See [`ServerProcess::start`], [`flows::open`] and [`sockets_of`].
    pub(crate) fn survey(settings: &ServerSettings) -> Result<FlowMap, Failure> {
        // One request of each flow is enough, and its cost does not change its socket. So emulated
        // cores charge nothing here.
        let free = ServerSettings { overheads: Overheads::NONE, ..settings.clone() };
        let process = ServerProcess::start(&free.serve_arguments(OWNED, ANY_PORT), settings.arguments.verbose)?;
        let address = process.udp;
        let reservation = reserve(address)?;
        let flows = flows::open(address, settings.plan(address)?.flows, None)?;
        let socket_of = sockets_of(&flows)?;
        process.stop()?;
        Ok(FlowMap { address, flows, socket_of, _reservation: reservation })
    }
}

/// Binds the port of `address` on another loopback address, so that no other program gets the port.
/// The server can still bind it. The sockets of the flows cannot take it, because they choose a
/// port before an address.
fn reserve(address: SocketAddr) -> Result<UdpSocket> {
    let elsewhere = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2)), address.port());
    UdpSocket::bind(elsewhere).with_context(|| {
        format!(
            "--simulate keeps the server's port for the next one by means of {elsewhere}, which cannot be had: run again, \
             which takes another port, or leave --simulate out"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does an error name the flag, the cause, and a remedy? Method: a socket that no server
    /// answers, and a port that is taken.
    #[test]
    fn what_cannot_be_learnt_names_the_flag_and_a_remedy() {
        let deaf = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
        let address = deaf.local_addr().expect("an address");
        deaf.connect(address).expect("connected to itself");
        let flows = flows::open(address, 1, None).expect("a socket");
        let error = format!("{:#}", sockets_of(&flows).expect_err("no answer"));
        for part in
            ["--simulate has to learn", "flow 0", "lower the load", "leave --simulate out", "none of 5 requests"]
        {
            assert!(error.contains(part), "{error}");
        }
        let other = UdpSocket::bind("127.0.0.2:0").expect("a socket on loopback");
        let taken = other.local_addr().expect("an address");
        let address = SocketAddr::from(([127, 0, 0, 1], taken.port()));
        let error = format!("{:#}", reserve(address).expect_err("a port that is taken"));
        for part in ["--simulate keeps", &taken.to_string(), "run again", "leave --simulate out", "in use"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
