//! Rejects datagrams by their addresses alone, before a handler sees them.
//!
//! A source address can be forged. If it is the server's own, a reply would come back as a request.
//! If it names several hosts, the reply would go to hosts that never asked. And a datagram to a
//! broadcast or multicast address would be a request in each socket of a wildcard bind.

use super::network::Network;
use super::receive::Datagram;
use arc_swap::{ArcSwap, Guard};
use forebay_base::fate::Malformed;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// The address rules of one server, and the addresses of the host, which the rules need.
#[derive(Debug)]
pub struct AddressFilter {
    listen: Box<[SocketAddr]>,
    /// Ascending. The port of most clients is above the last one, so one comparison suffices for
    /// them.
    reject_source_ports: Box<[u16]>,
    trusted: Box<[Network]>,
    host: ArcSwap<HostAddresses>,
}

impl AddressFilter {
    /// Rules for a server bound to all of `listen`, on a host with the addresses `host`. Datagrams
    /// from any of `reject_source_ports` are rejected. Addresses in `trusted` count as genuine.
    pub fn new(
        listen: &[SocketAddr],
        reject_source_ports: &[u16],
        trusted: &[Network],
        host: HostAddresses,
    ) -> AddressFilter {
        let (listen, mut reject_source_ports) = (listen.into(), Box::<[u16]>::from(reject_source_ports));
        reject_source_ports.sort_unstable();
        AddressFilter { listen, reject_source_ports, trusted: trusted.into(), host: ArcSwap::from_pointee(host) }
    }

    /// Reads the host's addresses again, because interfaces come and go. Returns whether they
    /// changed. Takes about 50 us, so workers must not call it.
    ///
    /// # Errors
    /// The kernel's error. The addresses known so far stay in use.
    pub fn refresh(&self) -> io::Result<bool> {
        let host = HostAddresses::read()?;
        let changed = host != **self.host.load();
        if changed {
            self.host.store(host.into());
        }
        Ok(changed)
    }

    /// The current rules, to check a whole batch with: to load the host's addresses costs more than
    /// a check.
    pub fn rules(&self) -> AddressRules<'_> {
        AddressRules { filter: self, host: self.host.load() }
    }
}

/// The rules of an [`AddressFilter`] at one moment, for one batch.
pub struct AddressRules<'f> {
    filter: &'f AddressFilter,
    host: Guard<Arc<HostAddresses>>,
}

impl AddressRules<'_> {
    /// Checks the addresses of `datagram`. Returns its sender, to whom a reply may go.
    ///
    /// # Errors
    /// The first rule that the addresses break.
    #[inline]
    pub fn check<'d>(&self, datagram: &'d Datagram) -> Result<&'d SocketAddr, Malformed> {
        let AddressRules { filter, host } = self;
        let peer = datagram.peer.as_ref().filter(|peer| peer.port() != 0).ok_or(Malformed::SourcePort)?;
        let port = peer.port();
        let rejected = &filter.reject_source_ports;
        if rejected.last().is_some_and(|last| port <= *last) && rejected.contains(&port) {
            return Err(Malformed::ReflectorPort);
        }
        if host.is_no_sender(peer.ip()) {
            return Err(Malformed::SourceAddress);
        }
        if filter.listen.iter().any(|listen| listen.port() == port) && self.is_own(peer, datagram.local) {
            return Err(Malformed::OwnAddress);
        }
        if datagram.to_group || datagram.local.is_some_and(|local| host.is_group(local)) {
            return Err(Malformed::Destination);
        }
        Ok(peer)
    }

    /// Whether the configuration says that the address of `peer` cannot be forged.
    pub fn trusts(&self, peer: &SocketAddr) -> bool {
        self.filter.trusted.iter().any(|network| network.contains(peer.ip()))
    }

    /// Whether a socket of this server receives datagrams sent to `peer`. `destination` is the
    /// address to which the checked datagram was sent. It counts as this host's even if the list of
    /// addresses could not be read.
    // Not inlined, because sources of requests hardly ever have the server's port.
    #[cold]
    fn is_own(&self, peer: &SocketAddr, destination: Option<IpAddr>) -> bool {
        let source = peer.ip().to_canonical();
        let destination = destination.map(|destination| destination.to_canonical());
        let receives = |listen: IpAddr| match listen.to_canonical() {
            IpAddr::V4(_) if listen.is_ipv4() && source.is_ipv6() => false,
            listen if !listen.is_unspecified() => source == listen,
            _ => source.is_loopback() || Some(source) == destination || self.host.is_own(source),
        };
        self.filter.listen.iter().any(|listen| listen.port() == peer.port() && receives(listen.ip()))
    }
}

/// The addresses of this host's interfaces at one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    /// The addresses of all interfaces, sorted.
    own: Vec<IpAddr>,
    /// The broadcast address of each network, computed from its mask, sorted. A broadcast address
    /// that is configured differently is missing: glibc reports it in the same field as the peer of
    /// a point-to-point link.
    broadcast: Vec<Ipv4Addr>,
}

impl HostAddresses {
    /// Reads the addresses from the kernel, by netlink.
    ///
    /// # Errors
    /// The kernel's error; a sandbox may forbid netlink.
    pub fn read() -> io::Result<HostAddresses> {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for interface in getifaddrs()? {
            let v4_of = |address: Option<SockaddrStorage>| Some(address?.as_sockaddr_in()?.ip());
            let no_network = Ipv4Addr::BROADCAST;
            match v4_of(interface.address) {
                Some(address) => v4.push((address, v4_of(interface.netmask).unwrap_or(no_network))),
                None => v6.extend(interface.address.and_then(|address| Some(address.as_sockaddr_in6()?.ip()))),
            }
        }
        Ok(HostAddresses::new(v4, v6))
    }

    /// Makes the list from IPv4 addresses with their netmasks, and IPv6 addresses.
    pub fn new(
        v4: impl IntoIterator<Item = (Ipv4Addr, Ipv4Addr)>,
        v6: impl IntoIterator<Item = Ipv6Addr>,
    ) -> HostAddresses {
        let mut host = HostAddresses { own: v6.into_iter().map(IpAddr::from).collect(), broadcast: Vec::new() };
        for (address, mask) in v4 {
            host.own.push(address.into());
            // As in the kernel, a network of one or two addresses has no broadcast address.
            if mask.to_bits().count_zeros() > 1 {
                host.broadcast.push(address | !mask);
            }
        }
        host.own.sort_unstable();
        host.broadcast.sort_unstable();
        host
    }

    /// Whether an interface has this address.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.binary_search(&address).is_ok()
    }

    /// Whether the address stands for several hosts: multicast, broadcast, or the broadcast address
    /// of one of this host's networks. IPv4-mapped addresses count as IPv4, because a socket for
    /// both families reports IPv4 addresses in this form.
    #[inline]
    pub fn is_group(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(v4) => v4.is_multicast() || self.is_broadcast(v4),
            IpAddr::V6(v6) => v6.is_multicast(),
        }
    }

    /// Whether a source address cannot be a single host.
    #[inline]
    fn is_no_sender(&self, source: IpAddr) -> bool {
        source.to_canonical().is_unspecified() || self.is_group(source)
    }

    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        // A broadcast address ends with at least two one bits, so most clients need no search.
        address.to_bits() & 3 == 3 && (address.is_broadcast() || self.broadcast.binary_search(&address).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: u16 = 9_000;

    fn host() -> HostAddresses {
        let interface = |address: &str, mask: &str| (address.parse().expect("v4"), mask.parse().expect("v4"));
        HostAddresses::new(
            [interface("127.0.0.1", "255.0.0.0"), interface("10.9.0.1", "255.255.255.0")],
            ["fe80::1".parse().expect("v6"), "fd00::1".parse().expect("v6")],
        )
    }

    fn datagram(peer: &str, local: Option<&str>) -> Datagram {
        let local = local.map(|local| local.parse().expect("an address"));
        Datagram { peer: Some(peer.parse().expect("an address and a port")), local, ..Datagram::default() }
    }

    #[track_caller]
    fn assert_checked(listen: &str, peer: &str, local: Option<&str>, expected: Result<(), Malformed>) {
        let listen = SocketAddr::new(listen.parse().expect("an address"), PORT);
        let filter = AddressFilter::new(&[listen], &[7, 1_900], &[], host());
        let checked = filter.rules().check(&datagram(peer, local)).map(drop);
        assert_eq!(checked, expected, "{listen} {peer} {local:?}");
    }

    // Which sources are not a single host, whatever the server is bound to?
    #[test]
    fn sources_are_single_hosts() {
        for (peer, reason) in [
            ("10.9.0.7:0", Malformed::SourcePort),
            ("10.9.0.7:7", Malformed::ReflectorPort),
            ("[fd00::7]:1900", Malformed::ReflectorPort),
            ("0.0.0.0:5000", Malformed::SourceAddress),
            ("[::]:5000", Malformed::SourceAddress),
            ("255.255.255.255:5000", Malformed::SourceAddress),
            ("10.9.0.255:5000", Malformed::SourceAddress),
            ("127.255.255.255:5000", Malformed::SourceAddress),
            ("224.0.0.1:5000", Malformed::SourceAddress),
            ("[ff02::1]:5000", Malformed::SourceAddress),
            ("[::ffff:10.9.0.255]:5000", Malformed::SourceAddress),
            ("[::ffff:224.0.0.1]:5000", Malformed::SourceAddress),
        ] {
            for listen in ["10.9.0.1", "0.0.0.0", "::", "fd00::1"] {
                assert_checked(listen, peer, None, Err(reason));
            }
        }
        for peer in ["10.9.0.7:5000", "10.9.0.0:5000", "10.9.1.255:53", "[fd00::7]:123", "[::ffff:10.9.0.7]:1"] {
            assert_checked("::", peer, None, Ok(()));
        }
        let no_ports = AddressFilter::new(&[([0; 4], PORT).into()], &[], &[], host());
        assert!(no_ports.rules().check(&datagram("1.2.3.4:7", None)).is_ok());
    }

    // Which addresses are the server's own, if it is bound to one address or to all?
    #[test]
    fn own_addresses_are_those_that_this_server_receives_at() {
        let own = Err(Malformed::OwnAddress);
        assert_checked("10.9.0.1", "10.9.0.1:9000", None, own);
        assert_checked("10.9.0.1", "10.9.0.1:9002", None, Ok(()));
        assert_checked("10.9.0.1", "127.0.0.1:9000", None, Ok(()));
        assert_checked("fd00::1", "[fd00::1]:9000", None, own);
        for peer in ["10.9.0.1:9000", "127.0.0.1:9000", "127.5.6.7:9000"] {
            assert_checked("0.0.0.0", peer, Some("10.9.0.1"), own);
            assert_checked("::", &format!("[::ffff:{}]:9000", &peer[..peer.len() - 5]), Some("::ffff:10.9.0.1"), own);
        }
        for peer in ["[fe80::1%3]:9000", "[fd00::1]:9000", "[::1]:9000"] {
            assert_checked("::", peer, Some("fd00::1"), own);
        }
        assert_checked("0.0.0.0", "10.9.0.7:9000", Some("10.9.0.1"), Ok(()));
        // An address that no interface has, in a network that is routed to this host as a whole.
        assert_checked("0.0.0.0", "192.0.2.1:9000", Some("192.0.2.1"), own);
    }

    // If the server has several addresses, is each its own, with its port, whichever of them
    // received the datagram?
    #[test]
    fn each_of_several_addresses_is_the_servers_own() {
        let listen = ["10.9.0.1:53", "10.9.0.2:54", "0.0.0.0:55"].map(|listen| listen.parse().expect("an address"));
        let filter = AddressFilter::new(&listen, &[], &[], host());
        for (peer, own) in [
            ("10.9.0.1:53", true),
            ("10.9.0.2:54", true),
            ("10.9.0.1:54", false),
            ("10.9.0.2:53", false),
            ("127.0.0.1:55", true),
            ("10.9.0.1:55", true),
            ("[fd00::1]:55", false),
            ("10.9.0.7:53", false),
        ] {
            let checked = filter.rules().check(&datagram(peer, None)).map(drop);
            assert_eq!(checked, if own { Err(Malformed::OwnAddress) } else { Ok(()) }, "{peer}");
        }
    }

    // Which destinations are several hosts, by the host's addresses or by the kernel's flag?
    #[test]
    fn destinations_are_this_host_alone() {
        let several = Err(Malformed::Destination);
        for local in ["10.9.0.255", "255.255.255.255", "224.0.0.1", "127.255.255.255"] {
            assert_checked("0.0.0.0", "10.9.0.7:5000", Some(local), several);
            assert_checked("::", "10.9.0.7:5000", Some(&format!("::ffff:{local}")), several);
        }
        assert_checked("::", "[fd00::7]:5000", Some("ff02::1"), several);
        assert_checked("::", "[fd00::7]:5000", Some("fd00::1"), Ok(()));
        let filter = AddressFilter::new(&[([0; 4], PORT).into()], &[], &[], host());
        let unlisted = Datagram { to_group: true, ..datagram("10.9.0.7:5000", Some("10.8.0.255")) };
        assert_eq!(filter.rules().check(&unlisted), Err(Malformed::Destination));
    }

    // Does the kernel report the addresses that every host has, with their broadcast addresses?
    #[test]
    fn the_loopback_interface_is_read() {
        let host = HostAddresses::read().expect("netlink");
        assert!(host.is_own(Ipv4Addr::LOCALHOST.into()), "{host:?}");
        assert!(host.is_group(Ipv4Addr::new(127, 255, 255, 255).into()), "{host:?}");
        assert!(!host.is_group(Ipv4Addr::LOCALHOST.into()) && !host.is_own(Ipv4Addr::UNSPECIFIED.into()), "{host:?}");
    }

    // Does a network that is too small have no broadcast address?
    #[test]
    fn networks_of_two_have_no_broadcast_address() {
        let address = Ipv4Addr::new(10, 9, 0, 1);
        for (mask, broadcast) in [(30, true), (31, false), (32, false)] {
            let mask = Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - mask).unwrap_or(0));
            let host = HostAddresses::new([(address, mask)], []);
            let others = (0..=3).map(|last| IpAddr::from([10, 9, 0, last])).filter(|other| host.is_group(*other));
            assert_eq!(others.count(), usize::from(broadcast), "{mask}");
        }
    }
}
