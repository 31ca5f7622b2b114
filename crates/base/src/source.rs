//! Sources of datagrams: addresses with one prefix count as one source.

use std::net::IpAddr;

/// Prefix lengths in bits: addresses with an equal prefix count as one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePrefix {
    /// Bits of IPv4, 1 to 32.
    pub v4: u8,
    /// Bits of IPv6, 1 to 64.
    pub v6: u8,
}

impl SourcePrefix {
    /// The usual size of one network: a /24 of IPv4, a /56 of IPv6 (RFC 6177).
    pub const NETWORK: SourcePrefix = SourcePrefix { v4: 24, v6: 56 };

    /// The least prefix of IPv4. It marks one: as IPv6 it would be a multicast address, which never
    /// sends.
    pub const IPV4: u64 = 0xFF << 56;

    /// The prefix of `source`, as a number that is unique over both families.
    #[inline]
    pub fn of(self, source: IpAddr) -> u64 {
        match source.to_canonical() {
            IpAddr::V4(address) => Self::IPV4 | u64::from(u32::from(address) & self.mask_v4()),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64 & self.mask_v6(),
        }
    }

    /// The bits of an IPv4 address that count.
    pub fn mask_v4(self) -> u32 {
        u32::MAX << (32 - self.v4)
    }

    /// The bits that count in the first half of an IPv6 address.
    pub fn mask_v6(self) -> u64 {
        u64::MAX << (64 - self.v6)
    }
}
