//! Checks before the start that the system permits the calls a server needs. A sandbox may forbid
//! `recvmmsg` or `sendmmsg`, and an old kernel may lack them. Without this check, a server would
//! report that it is ready, but would receive or send nothing.

use super::io::Io;
use super::receive::Receiver;
use super::send::Sender;
use super::socket::Socket;
use std::io;
use std::net::SocketAddr;

/// Makes each call that `io` needs once for each of `addresses`, on an unbound socket that no
/// datagram can reach. Receives and sends nothing.
///
/// # Errors
/// A text that names the call that is not permitted, why, and what is allowed.
pub fn probe(addresses: &[SocketAddr], io: Io) -> Result<(), String> {
    let (receive, other) = match io {
        Io::Batches => ("recvmmsg", ", or --io gro"),
        Io::Gro => ("recvmsg", ", or --io batches"),
    };
    let refused = |call: &str, other: &str, error: io::Error| {
        format!("--io {}: this system does not permit {call}: {error}; allowed: a system that does{other}", io.name())
    };
    addresses.iter().try_for_each(|address| {
        let socket = Socket::unbound(*address, io).map_err(|error| refused("such a socket", "", error))?;
        let received = Receiver::new(io, |_, _| false).receive(&socket, std::iter::once(&mut [0; 1][..]));
        received.map_err(|error| refused(receive, other, error))?;
        Sender::new(false).try_nothing(&socket).map_err(|errno| refused("sendmmsg", "", errno.into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn what_is_permitted_passes_on_every_kind_of_address() {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()] {
            for io in Io::ALL {
                assert_eq!(probe(&[SocketAddr::new(ip, 0)], io), Ok(()), "{ip}");
            }
        }
    }
}
