//! The port of a capture that requests go to.

use super::Datagram;
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};

/// From this port on, systems choose ports for clients: Linux from 32768 on, others from 49152 on.
const CHOSEN: u16 = 32_768;

/// Who asks whom in a capture, as far as it has been read.
#[derive(Default)]
struct Asked {
    /// A socket, and a port that it asks, at whatever address.
    ports: HashSet<(SocketAddr, u16)>,
    /// A socket, and an address that it asked and that has not answered yet.
    open: HashSet<(SocketAddr, IpAddr)>,
}

/// The port that most requests go to; of two with as many, the one that is asked first. Without any
/// request, the port of most datagrams. `None` without datagrams, which are in the order of their
/// times.
pub(super) fn port(datagrams: &[Datagram]) -> Option<u16> {
    let [mut requests, mut all] = [(); 2].map(|()| vec![0_usize; 1 << u16::BITS]);
    let mut asked = Asked::default();
    for datagram in datagrams {
        let port = usize::from(datagram.target.port());
        all[port] += 1;
        requests[port] += usize::from(asked.is_request(datagram));
    }
    let counts = if requests.iter().any(|count| *count > 0) { requests } else { all };
    let most = counts.iter().max()?;
    datagrams.iter().map(|datagram| datagram.target.port()).find(|port| counts[usize::from(*port)] == *most)
}

impl Asked {
    /// Whether `datagram` is a request. The first datagram between two sockets is one, with two
    /// exceptions, both if its target has a port of the systems' choice. If its source has none,
    /// the capture began between a request and its reply. If the target waits for an answer of
    /// this address, it is the answer, from another port, as of TFTP.
    fn is_request(&mut self, Datagram { source, target, .. }: &Datagram) -> bool {
        let [there, back] = [(*source, target.port()), (*target, source.port())];
        let is_awaited = self.open.remove(&(*target, source.ip()));
        let is_new = !self.ports.contains(&there) && !self.ports.contains(&back);
        let is_reply = CHOSEN <= target.port() && (is_awaited || source.port() < CHOSEN);
        if is_new {
            self.ports.insert(if is_reply { back } else { there });
        }
        let is_request = self.ports.contains(&there);
        if is_request {
            self.open.insert((*source, target.ip()));
        }
        is_request
    }
}
