//! Where requests come from: `--from`.

use forebay::config::Network;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of flow `number` of `count`, which spread evenly over `network`.
pub fn nth(network: Network, number: u16, count: u16) -> IpAddr {
    let host_bits = network.width() - network.bits;
    let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |hosts| hosts - 1);
    // As many addresses lie between two flows wherever there are enough; else several share one.
    let host = (hosts / u128::from(count)).max(1).saturating_mul(number.into()) & hosts;
    match network.first {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() | host as u32).into(),
        IpAddr::V6(first) => Ipv6Addr::from_bits(first.to_bits() | host).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_spread_over_a_prefix() {
        let of = |text: &str, count: u16| {
            let network: Network = text.parse().expect(text);
            (0..count).map(|number| nth(network, number, count).to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("127.0.0.2", 2), ["127.0.0.2", "127.0.0.2"]);
        assert_eq!(of("127.1.0.0/16", 4), ["127.1.0.0", "127.1.63.255", "127.1.127.254", "127.1.191.253"]);
        assert_eq!(of("127.1.0.4/31", 3), ["127.1.0.4", "127.1.0.5", "127.1.0.4"]);
        assert_eq!(of("fd00::/64", 2), ["fd00::", "fd00::7fff:ffff:ffff:ffff"]);
    }
}
