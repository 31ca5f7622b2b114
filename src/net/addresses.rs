//! The addresses of this host, and the broadcast addresses of its networks.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of this host's interfaces, as of one reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAddresses {
    /// The addresses of all interfaces, sorted.
    own: Vec<IpAddr>,
    /// The broadcast address of each network by its mask, sorted. One that was configured otherwise is not included:
    /// glibc reports it in the same place as the peer of a point-to-point address.
    broadcast: Vec<Ipv4Addr>,
}

impl HostAddresses {
    /// Reads the addresses from the kernel, over netlink.
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

    /// Addresses from given IPv4 addresses with their netmasks, and IPv6 addresses.
    pub fn new(
        v4: impl IntoIterator<Item = (Ipv4Addr, Ipv4Addr)>,
        v6: impl IntoIterator<Item = Ipv6Addr>,
    ) -> HostAddresses {
        let mut host = HostAddresses { own: v6.into_iter().map(IpAddr::from).collect(), broadcast: Vec::new() };
        for (address, mask) in v4 {
            host.own.push(address.into());
            // As in the kernel: a network of one or two addresses has no broadcast address.
            if mask.to_bits().count_zeros() > 1 {
                host.broadcast.push(address | !mask);
            }
        }
        host.own.sort_unstable();
        host.broadcast.sort_unstable();
        host
    }

    /// True if an interface has this address.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own.binary_search(&address).is_ok()
    }

    /// True for an address of several hosts: multicast, or broadcast, also in a network of this host.
    pub fn is_group(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || self.broadcast.binary_search(&v4).is_ok(),
            IpAddr::V6(v6) => v6.is_multicast(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the kernel report the addresses that every host has, with the broadcast addresses of their masks?
    #[test]
    fn the_loopback_interface_is_read() {
        let host = HostAddresses::read().expect("netlink");
        assert!(host.is_own(Ipv4Addr::LOCALHOST.into()), "{host:?}");
        assert!(host.is_group(Ipv4Addr::new(127, 255, 255, 255).into()), "{host:?}");
        assert!(!host.is_group(Ipv4Addr::LOCALHOST.into()) && !host.is_own(Ipv4Addr::UNSPECIFIED.into()), "{host:?}");
    }

    // Does a network too small for a broadcast address have none?
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
