//! The I/O backends that this system permits. A sandbox may forbid `recvmmsg` or `sendmmsg`, and an old kernel may
//! lack them. A server that did not check would receive or send nothing while it reports to be ready.
//!
//! Each backend is probed before a socket is bound, on a socket of its own that no datagram can reach. An attempt to
//! receive from it finds nothing, and an attempt to send nothing succeeds. Any other result is the reason to try the
//! next backend.

use super::socket::Socket;
use super::{Io, receive, send};
use std::io;
use std::net::SocketAddr;

/// The backends to use, as far as the system permits.
#[derive(Debug)]
pub struct Ways {
    /// The backend for receiving; sockets are to be opened for it.
    pub receive: Io,
    /// The backend for sending.
    pub send: Io,
    /// Preferred backends that cannot be used, with reasons; empty if there are none.
    pub refused: String,
}

const RECEIVE: &str = "receive";

impl Ways {
    /// The permitted backends nearest to `wanted` for sockets that will be bound to `addresses`. Receiving and sending
    /// are probed separately: a system may forbid the call of only one.
    ///
    /// # Errors
    /// When no backend receives, or none sends: why, and what is allowed.
    pub fn find(addresses: &[SocketAddr], wanted: Io) -> Result<Ways, String> {
        let all = |attempt: fn(&Socket, Io) -> io::Result<()>| {
            move |io| {
                addresses.iter().try_for_each(|address| {
                    // A datagram must carry its destination there, and a reply its source: no portable call does that.
                    if io == Io::Portable && address.ip().is_unspecified() {
                        return Err(io::Error::other("not on a --listen of all addresses"));
                    }
                    attempt(&Socket::unbound(*address, io)?, io)
                })
            }
        };
        let (receive, refused) = first(wanted, RECEIVE, all(receive::probe))?;
        // `batches` and `gro` send alike.
        let wanted = if wanted == Io::Portable { Io::Portable } else { Io::Batches };
        let (send, more) = first(wanted, "send", all(send::probe))?;
        Ok(Ways { receive, send, refused: [refused, more].concat().join("; ") })
    }
}

/// The first backend, from `wanted` on, that passes `probe`, and why those before do not.
fn first(wanted: Io, action: &'static str, probe: impl Fn(Io) -> io::Result<()>) -> Result<(Io, Vec<String>), String> {
    let mut refused = Vec::new();
    for io in std::iter::once(wanted).chain(Io::ALL.into_iter().filter(|io| *io != wanted)) {
        let Err(error) = probe(io) else { return Ok((io, refused)) };
        let call = match (action, io) {
            (RECEIVE, Io::Batches) => "recvmmsg",
            (RECEIVE, Io::Gro) => "recvmsg",
            (RECEIVE, Io::Portable) => "recvfrom",
            (_, Io::Batches | Io::Gro) => "sendmmsg",
            (_, Io::Portable) => "sendto",
        };
        refused.push(format!("{} cannot {action} ({call}): {error}", io.name()));
    }
    let (refused, allowed) = (refused.join("; "), "allow one of these calls, or choose another --io or --listen");
    Err(format!("no --io can {action}: {refused}; {allowed}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    // Does a system that permits everything give the wanted backend, on every kind of address?
    #[test]
    fn what_is_permitted_is_taken() {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into()] {
            for io in Io::ALL {
                let address = SocketAddr::new(ip, 0);
                if io == Io::Portable && ip.is_unspecified() {
                    continue;
                }
                let ways = Ways::find(&[address], io).expect("nothing is forbidden");
                let send = if io == Io::Gro { Io::Batches } else { io };
                assert_eq!((ways.receive, ways.send, &*ways.refused), (io, send, ""), "{address}");
            }
        }
    }

    #[test]
    fn the_next_one_is_taken_and_without_one_the_error_names_all() {
        let forbid = |forbidden: &'static [Io]| {
            let found = first(Io::Gro, RECEIVE, |io| match forbidden.contains(&io) {
                true => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
                false => Ok(()),
            });
            found.map(|(io, refused)| (io, refused.len()))
        };
        assert_eq!(forbid(&[Io::Batches]), Ok((Io::Gro, 0)));
        assert_eq!(forbid(&[Io::Gro]), Ok((Io::Batches, 1)));
        assert_eq!(forbid(&[Io::Gro, Io::Batches]), Ok((Io::Portable, 2)));
        let none = "no --io can receive: gro cannot receive (recvmsg): permission denied; batches cannot receive \
                    (recvmmsg): permission denied; portable cannot receive (recvfrom): permission denied; allow one of these \
                    calls, or choose another --io or --listen";
        assert_eq!(forbid(&Io::ALL), Err(none.to_owned()));
    }

    #[test]
    fn no_portable_call_is_made_where_an_address_would_be_lost() {
        let ways = Ways::find(&[(Ipv4Addr::UNSPECIFIED, 0).into()], Io::Portable).expect("others can tell it");
        assert_eq!(ways.refused.matches("--listen").count(), 2, "{ways:?}");
    }
}
