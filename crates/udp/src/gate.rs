//! Compiles the gate's rules into a classic BPF program. The kernel runs it for each datagram,
//! before the datagram enters a socket. This happens in the kernel's network processing, so a drop
//! costs the workers no time.

use super::network::Network;
use forebay_base::source::SourcePrefix;
use socket2::SockFilter;
use std::net::IpAddr;

/// Whether any address has both this `prefix` by `bits` and this `network`.
fn overlaps(bits: SourcePrefix, prefix: u64, network: &Network) -> bool {
    let mask = match network.first {
        IpAddr::V4(_) => u64::from(u32::MAX.checked_shl(32 - network.bits).unwrap_or(0)),
        IpAddr::V6(_) => u64::MAX.checked_shl(64_u32.saturating_sub(network.bits)).unwrap_or(0),
    };
    network.first.is_ipv4() == (prefix >= SourcePrefix::IPV4) && (prefix ^ bits.of(network.first)) & mask == 0
}

// Opcodes of `linux/bpf_common.h` and `linux/filter.h`. `X` is the second register.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const COPY_TO_X: u16 = 0x07;
const ADD_X: u16 = 0x0C;
const XOR_X: u16 = 0xAC;
const MULTIPLY: u16 = 0x24;
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
/// The most prefixes that a leaf of the tree compares one by one: a conditional jump skips at most
/// 255 instructions.
const LEAF: usize = 40;
/// By how many bits a hash is shifted to mix its upper bits into its lower ones.
const FOLD: u32 = 15;

/// Makes a program that admits a share of the datagrams of each prefix in `shares`, and the share
/// `rest` of all other datagrams. A network of `whole` is admitted entirely, unless one of its
/// prefixes has a share below 1.
///
/// The program looks up a key of the source in a binary tree. For IPv4 the key is the prefix. For
/// IPv6 it is a 32-bit hash of the prefix. The hash uses a random `seed`, so that no sender can
/// choose a prefix with the key of another one.
pub fn program(
    bits: SourcePrefix,
    seed: u64,
    shares: impl Iterator<Item = (u64, f64)>,
    rest: f64,
    whole: &[Network],
) -> Vec<SockFilter> {
    let [first, second] = seeds(seed);
    let masks = bits.mask_v6();
    let shares: Vec<_> = shares.collect();
    let is_whole =
        |network: &&Network| shares.iter().all(|(prefix, share)| *share >= 1.0 || !overlaps(bits, *prefix, network));
    let (v4, v6): (Vec<_>, Vec<_>) = whole.iter().filter(is_whole).partition(|network| network.first.is_ipv4());
    let [mut v4, mut v6] = [v4, v6].map(|networks| networks.into_iter().flat_map(lets_in).collect::<Vec<_>>());
    v4.extend([plain(LOAD_WORD, NET + 12), plain(AND, bits.mask_v4())]);
    v6.extend([plain(LOAD_WORD, NET + 8), plain(AND, (masks >> 32) as u32)]);
    v6.extend(mix_code(first));
    v6.extend([plain(COPY_TO_X, 0), plain(LOAD_WORD, NET + 12), plain(AND, masks as u32), plain(ADD_X, 0)]);
    v6.extend(mix_code(second));
    let mut keys: Vec<_> = shares.into_iter().map(|(prefix, share)| (key(prefix, seed), share)).collect();
    keys.sort_unstable_by_key(|(key, _)| *key);
    let mut program = vec![plain(LOAD_BYTE, NET), plain(SHIFT_RIGHT, 4)];
    program.extend([SockFilter::new(IF_EQUAL, 1, 0, 4), plain(JUMP, v4.len() as u32 + 1)]);
    program.extend(v4);
    program.push(plain(JUMP, v6.len() as u32));
    program.extend(v6);
    program.extend(search(&keys, rest));
    program
}

/// Instructions that admit a datagram from `network`, which is of the datagram's family.
fn lets_in(network: &Network) -> Vec<SockFilter> {
    let (offset, words) = match network.first {
        IpAddr::V4(first) => (12, vec![first.to_bits()]),
        IpAddr::V6(first) => (8, [96, 64, 32, 0].map(|shift| (first.to_bits() >> shift) as u32).to_vec()),
    };
    let mut code = vec![plain(RETURN, ALL)];
    for (place, word) in words.into_iter().enumerate().rev() {
        let place = place as u32;
        let bits = network.bits.saturating_sub(32 * place).min(32);
        let Some(mask) = u32::MAX.checked_shl(32 - bits) else { continue };
        let skips = SockFilter::new(IF_EQUAL, 0, code.len() as u8, word);
        code.splice(..0, [plain(LOAD_WORD, NET + offset + 4 * place), plain(AND, mask), skips]);
    }
    code
}

/// The key of a prefix, computed as the program does.
fn key(prefix: u64, seed: u64) -> u32 {
    let [first, second] = seeds(seed);
    let mix = |value: u32, seed| {
        let value = value.wrapping_mul(seed);
        value >> FOLD ^ value
    };
    match prefix {
        SourcePrefix::IPV4.. => prefix as u32,
        _ => mix(mix((prefix >> 32) as u32, first).wrapping_add(prefix as u32), second),
    }
}

/// Two factors from a seed. They are odd, so that multiplication maps different values to different
/// results.
fn seeds(seed: u64) -> [u32; 2] {
    [seed as u32 | 1, (seed >> 32) as u32 | 1]
}

/// Instructions that mix a value as [`key`] does.
fn mix_code(seed: u32) -> [SockFilter; 4] {
    [plain(MULTIPLY, seed), plain(COPY_TO_X, 0), plain(SHIFT_RIGHT, FOLD), plain(XOR_X, 0)]
}

/// Instructions that look up the source's key among `keys`, which ascend, and admit or drop the
/// datagram.
fn search(keys: &[(u32, f64)], rest: f64) -> Vec<SockFilter> {
    if keys.len() > LEAF {
        let (low, high) = keys.split_at(keys.len() / 2);
        let (first, low) = (high[0].0, search(low, rest));
        let mut tree = vec![SockFilter::new(IF_AT_LEAST, 0, 1, first), plain(JUMP, low.len() as u32)];
        tree.extend(low);
        tree.extend(search(high, rest));
        return tree;
    }
    let (pass, limited): (Vec<_>, Vec<_>) = keys.iter().partition(|(_, share)| *share >= 1.0);
    let mut end = Vec::new();
    for (key, share) in limited {
        let verdict = verdict(share);
        end.push(SockFilter::new(IF_EQUAL, 0, verdict.len() as u8, key));
        end.extend(verdict);
    }
    end.extend(verdict(rest));
    let count = pass.len();
    let mut leaf = Vec::new();
    for (place, (key, _)) in pass.into_iter().enumerate() {
        leaf.push(SockFilter::new(IF_EQUAL, (count - place - 1 + end.len()) as u8, 0, key));
    }
    leaf.extend(end);
    leaf.push(plain(RETURN, ALL));
    leaf
}

/// A program that drops every packet, by keeping zero bytes of it.
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
