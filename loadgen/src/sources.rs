//! Where requests come from: `--from`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The addresses that flows send from: an address, or a prefix over which they spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sources {
    network: IpAddr,
    bits: u32,
}

impl FromStr for Sources {
    type Err = String;

    /// An address, or a prefix like `127.1.0.0/16` whose host part is 0.
    fn from_str(text: &str) -> Result<Sources, String> {
        let parsed = || {
            let (network, bits) = text.split_once('/').map_or((text, None), |(network, bits)| (network, Some(bits)));
            let network: IpAddr = network.parse().ok()?;
            let bits = bits.map_or(Some(width(network)), |bits| bits.parse().ok())?;
            let sources = Sources { network, bits };
            (bits <= width(network) && sources.nth(0, 1) == network).then_some(sources)
        };
        parsed().ok_or_else(|| {
            "neither an address nor a prefix with a host part of 0; write 127.0.0.2 or 127.1.0.0/16".to_owned()
        })
    }
}

/// Bits of an address of this family.
fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Sources {
    /// The address of flow `number` of `count`.
    pub fn nth(&self, number: u16, count: u16) -> IpAddr {
        let host_bits = width(self.network) - self.bits;
        let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |hosts| hosts - 1);
        // As many addresses lie between two flows wherever there are enough; else several share one.
        let host = (hosts / u128::from(count)).max(1).saturating_mul(number.into()) & hosts;
        match self.network {
            IpAddr::V4(network) => Ipv4Addr::from_bits(network.to_bits() & !(hosts as u32) | host as u32).into(),
            IpAddr::V6(network) => Ipv6Addr::from_bits(network.to_bits() & !hosts | host).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_spread_over_a_prefix() {
        let of = |text: &str, count: u16| {
            let sources: Sources = text.parse().expect(text);
            (0..count).map(|number| sources.nth(number, count).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("127.0.0.2", 2), ["127.0.0.2", "127.0.0.2"]);
        assert_eq!(of("127.1.0.0/16", 4), ["127.1.0.0", "127.1.63.255", "127.1.127.254", "127.1.191.253"]);
        assert_eq!(of("127.1.0.4/31", 3), ["127.1.0.4", "127.1.0.5", "127.1.0.4"]);
        assert_eq!(of("fd00::/64", 2), ["fd00::", "fd00::7fff:ffff:ffff:ffff"]);
        for text in ["", "127.1", "127.0.0.0/33", "127.1.0.1/16", "::/129", "127.0.0.1/"] {
            assert!(text.parse::<Sources>().is_err(), "{text}");
        }
    }
}
