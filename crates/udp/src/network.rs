//! Networks in CIDR notation (RFC 4632).

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::str::FromStr;

/// A network: the addresses of one family that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// The lowest address of the network.
    pub first: IpAddr,
    /// Prefix length: the number of leading bits that the addresses share, at most
    /// [`Network::width`].
    pub bits: u32,
}

impl Network {
    /// Length of an address of this family, in bits.
    pub fn width(&self) -> u32 {
        if self.first.is_ipv4() { 32 } else { 128 }
    }

    /// Whether `address` is in the network; IPv4-mapped addresses count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let differing = match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => u128::from(first.to_bits() ^ address.to_bits()),
            (IpAddr::V6(first), IpAddr::V6(address)) => first.to_bits() ^ address.to_bits(),
            _ => return false,
        };
        differing.checked_shr(self.width() - self.bits).unwrap_or(0) == 0
    }
}

impl FromStr for Network {
    type Err = String;

    /// Reads an address, or a prefix like `127.1.0.0/16` whose host part is 0.
    fn from_str(text: &str) -> Result<Network, String> {
        let parsed = || {
            let (first, bits) = text.split_once('/').map_or((text, None), |(first, bits)| (first, Some(bits)));
            let mut network = Network { first: first.parse().ok()?, bits: 0 };
            network.bits = bits.map_or(Some(network.width()), |bits| bits.parse().ok())?;
            let host_bits = match network.first {
                IpAddr::V4(first) => first.to_bits().trailing_zeros(),
                IpAddr::V6(first) => first.to_bits().trailing_zeros(),
            };
            (network.bits <= network.width() && network.width() - network.bits <= host_bits).then_some(network)
        };
        parsed().ok_or_else(|| {
            "neither an address nor a prefix with a host part of 0; write 127.0.0.2 or 127.1.0.0/16".to_owned()
        })
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        if self.bits < self.width() { write!(f, "/{}", self.bits) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is an address in a network exactly if its first bits match? Has each network one text form?
    #[test]
    fn a_network_has_the_addresses_of_its_prefix() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.255.255", "11.0.0.0"),
            ("192.0.2.128/25", "::ffff:192.0.2.129", "192.0.2.127"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.0"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "203.0.113.9"),
            ("fd00:0:0:1::/64", "fd00:0:0:1:ffff::", "fd00::"),
        ] {
            let network: Network = text.parse().expect(text);
            let contains = |address: &str| network.contains(address.parse().expect("an address"));
            assert!(contains(inside) && !contains(outside) && network.to_string() == text, "{text}");
        }
        for text in ["", "127.1", "127.0.0.0/33", "127.1.0.1/16", "::/129", "127.0.0.1/", "0.0.0.1/0"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
