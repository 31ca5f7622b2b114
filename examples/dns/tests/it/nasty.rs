//! A generated zone whose names combine a few labels in all orders, and questions for it.

use std::collections::BTreeMap;
use std::fmt::Write;

/// `*` is for wildcards. The last label has the greatest length.
const LABELS: [&str; 7] =
    ["a", "b", "Mid", "*", "x1", "ns", "a-label-of-63-letters-which-is-as-long-as-any-label-can-be---63"];

const TYPES: [&str; 10] = ["A", "A", "AAAA", "NS", "MX", "TXT", "CNAME", "DS", "RRSIG", "SOA"];

/// The number of names with records.
const NAMES: usize = 120;

/// A generated zone, and the random state.
pub(crate) struct Nasty {
    state: u64,
    names: Vec<String>,
}

impl Nasty {
    pub(crate) fn new(seed: u64) -> Nasty {
        Nasty { state: seed, names: Vec::new() }
    }

    /// A random number below `end`, by SplitMix64.
    fn below(&mut self, end: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// A random name of three labels on average, mostly short ones.
    fn name(&mut self) -> String {
        let long = LABELS.len() - 1;
        let first = if self.below(20) == 0 { long } else { self.below(long) };
        let mut name = LABELS[first].to_owned();
        while self.below(3) > 0 {
            name = format!("{}.{name}", LABELS[self.below(long)]);
        }
        name
    }

    /// The zone's file.
    pub(crate) fn zone(&mut self) -> String {
        let mut records = BTreeMap::new();
        for _ in 0..NAMES {
            let name = self.name();
            let other = self.name();
            let text = match self.below(8) {
                // A wildcard cannot be delegated.
                0 if !name.starts_with('*') => format!("NS ns.{name}\n NS {other}\n"),
                1 if !name.starts_with('*') => format!("NS {other}\n DS 1 8 2 ab\n"),
                2 | 3 => format!("CNAME {other}\n"),
                4 => format!("CNAME {other}.example.net.\n"),
                5 => format!("TXT text\n MX 10 {other}\n"),
                _ => format!("A 192.0.2.{}\n AAAA 2001:db8::1\n", self.below(255)),
            };
            records.insert(name.to_lowercase(), (name, text));
        }
        let mut zone = "$TTL 60\n@ SOA ns0 host 7 1 1 1 30\n@ NS ns0\nns0 A 192.0.2.1\n".to_owned();
        for (name, text) in records.into_values() {
            let _ = write!(zone, "{name} {text}");
            self.names.push(name);
        }
        zone
    }

    /// A random question for a name of the zone, or for a name above, below or beside it.
    pub(crate) fn question(&mut self) -> (String, &'static str) {
        let known = self.below(self.names.len());
        let mut name = self.names[known].clone();
        match self.below(6) {
            0 => name = self.name(),
            1 | 2 => name = format!("{}.{name}", self.pick(&["a", "b", "ns", "no", "*"])),
            3 => name = name.split_once('.').map_or_else(|| name.clone(), |(_, above)| above.to_owned()),
            4 => name = name.to_uppercase(),
            _ => {}
        }
        (format!("{name}.example.test"), self.pick(&TYPES))
    }
}
