//! The gate's rules as a classic BPF program, which the kernel runs for each datagram before it enters a socket. The program
//! runs where the sender's datagram is handled, so what it turns away costs the workers nothing.

use socket2::SockFilter;
use std::net::IpAddr;

/// How many bits of an address stand for one network, which counts as one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourcePrefix {
    /// Of IPv4, 1 to 32.
    pub v4: u8,
    /// Of IPv6, 1 to 64.
    pub v6: u8,
}

impl SourcePrefix {
    /// What one network has: a /24 of IPv4, a /56 of IPv6 (RFC 6177).
    pub const NETWORK: SourcePrefix = SourcePrefix { v4: 24, v6: 56 };

    /// The part of `source` that stands for its network.
    pub fn of(self, source: IpAddr) -> u64 {
        match source.to_canonical() {
            IpAddr::V4(address) => IPV4 | u64::from(u32::from(address) & self.mask_v4()),
            IpAddr::V6(address) => (u128::from(address) >> 64) as u64 & self.mask_v6(),
        }
    }

    fn mask_v4(self) -> u32 {
        u32::MAX << (32 - self.v4)
    }

    fn mask_v6(self) -> u64 {
        u64::MAX << (64 - self.v6)
    }
}

/// Above a prefix of IPv4. As IPv6 it would be a multicast address, which no datagram comes from.
const IPV4: u64 = 0xFF << 56;

// Of `linux/bpf_common.h` and `linux/filter.h`.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const LOAD_MEMORY: u16 = 0x60;
const STORE: u16 = 0x02;
const AND: u16 = 0x54;
const SHIFT_RIGHT: u16 = 0x74;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
/// Offset of the network header, `SKF_NET_OFF`.
const NET: u32 = -0x10_0000_i32 as u32;
/// Offset of 32 random bits, `SKF_AD_OFF + SKF_AD_RANDOM`.
const RANDOM: u32 = (-0x1000_i32 + 56) as u32;

const ALL: u32 = u32::MAX;

/// A program that lets a share of the datagrams of each prefix in, and the share `rest` of all others.
pub fn program(bits: SourcePrefix, shares: impl Iterator<Item = (u64, f64)>, rest: f64) -> Vec<SockFilter> {
    let masks = bits.mask_v6();
    let mut v4 = vec![plain(LOAD_WORD, NET + 12), plain(AND, bits.mask_v4())];
    let mut v6 = vec![plain(LOAD_WORD, NET + 8), plain(AND, (masks >> 32) as u32), plain(STORE, 0)];
    v6.extend([plain(LOAD_WORD, NET + 12), plain(AND, masks as u32), plain(STORE, 1)]);
    for (prefix, share) in shares {
        let verdict = verdict(share);
        let (length, low) = (verdict.len() as u8, prefix as u32);
        if prefix >= IPV4 {
            v4.push(SockFilter::new(IF_EQUAL, 0, length, low));
            v4.extend(verdict);
        } else {
            v6.extend([plain(LOAD_MEMORY, 0), SockFilter::new(IF_EQUAL, 0, length + 2, (prefix >> 32) as u32)]);
            v6.extend([plain(LOAD_MEMORY, 1), SockFilter::new(IF_EQUAL, 0, length, low)]);
            v6.extend(verdict);
        }
    }
    v4.extend(verdict(rest));
    v6.extend(verdict(rest));
    let mut program = vec![plain(LOAD_BYTE, NET), plain(SHIFT_RIGHT, 4), SockFilter::new(IF_EQUAL, 1, 0, 4)];
    program.push(plain(JUMP, v4.len() as u32));
    program.extend(v4);
    program.extend(v6);
    program
}

/// Of every packet, zero bytes are kept.
pub(super) fn reject_all() -> [SockFilter; 1] {
    [plain(RETURN, 0)]
}

fn verdict(share: f64) -> Vec<SockFilter> {
    if share >= 1.0 {
        return vec![plain(RETURN, ALL)];
    }
    let below = (share * 2_f64.powi(32)) as u32;
    vec![plain(LOAD_WORD, RANDOM), SockFilter::new(IF_AT_LEAST, 1, 0, below), plain(RETURN, ALL), plain(RETURN, 0)]
}

fn plain(code: u16, k: u32) -> SockFilter {
    SockFilter::new(code, 0, 0, k)
}

#[cfg(test)]
mod tests;
