//! The gate's rules as a classic BPF program, which the kernel runs for each datagram before it enters a socket. The program
//! runs where the sender's datagram is handled, so what it turns away costs the workers nothing.

use socket2::SockFilter;
use std::net::IpAddr;

/// The part of an address that stands for one network (RFC 6177): a /24 of IPv4, or the 56 bits of a /56 of IPv6.
pub fn prefix(source: IpAddr) -> u64 {
    match source {
        IpAddr::V4(address) => u64::from(u32::from(address) >> 8) | IPV4,
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => prefix(IpAddr::V4(address)),
            None => (u128::from(address) >> 72) as u64,
        },
    }
}

/// The bit that a prefix of IPv4 has, and no other.
const IPV4: u64 = 1 << 63;

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
/// Both a /24 and the second half of a /56 end with this word's last byte.
const PREFIX_MASK: u32 = 0xFFFF_FF00;

/// A program that lets a share of the datagrams of each prefix in, and the share `rest` of all others.
pub fn program(shares: impl Iterator<Item = (u64, f64)> + Clone, rest: f64) -> Vec<SockFilter> {
    let mut v4 = vec![plain(LOAD_WORD, NET + 12), plain(AND, PREFIX_MASK)];
    let mut v6 = vec![plain(LOAD_WORD, NET + 8), plain(STORE, 0), plain(LOAD_WORD, NET + 12)];
    v6.extend([plain(AND, PREFIX_MASK), plain(STORE, 1)]);
    for (prefix, share) in shares {
        let verdict = verdict(share);
        let (length, low) = (verdict.len() as u8, (prefix << 8) as u32);
        if prefix & IPV4 != 0 {
            v4.push(SockFilter::new(IF_EQUAL, 0, length, low));
            v4.extend(verdict);
        } else {
            v6.extend([plain(LOAD_MEMORY, 0), SockFilter::new(IF_EQUAL, 0, length + 2, (prefix >> 24) as u32)]);
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
