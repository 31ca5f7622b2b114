//! Balancers choose the server of a fleet for each request.

use super::servers::ServerId;
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How a balancer chooses the server of a request. `TwoChoices` and `JoinShortestQueue` are best
/// cases: they know the present number of requests in each server. A real balancer learns this
/// number late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Balance {
    /// Any server, each as likely as the others.
    Random,
    /// The server to which the request's flow is hashed, by rendezvous hashing: if a server is
    /// lost, only the flows of this server move. The request rate of a flow falls with its rank to
    /// the power of `zipf`. With `zipf` 0 all flows have the same rate.
    FlowHash {
        /// The exponent of the flows' rates, 0 to [`ZIPF_MAX`].
        zipf: f64,
    },
    /// Of two servers, drawn at random, the one that holds fewer requests (power of two choices).
    TwoChoices,
    /// The server that holds the fewest requests (JSQ); if several do, any of them.
    JoinShortestQueue,
}

/// All balancers with a fixed name. `FlowHash` with another `zipf` has a form instead.
const NAMED: [(&str, Balance); 4] = [
    ("random", Balance::Random),
    ("flow-hash", Balance::FlowHash { zipf: 0.0 }),
    ("two-choices", Balance::TwoChoices),
    ("jsq", Balance::JoinShortestQueue),
];

/// The largest exponent of flows' rates.
pub const ZIPF_MAX: f64 = 4.0;

impl FromStr for Balance {
    type Err = String;

    fn from_str(text: &str) -> Result<Balance, String> {
        let zipf = || {
            let exponent: f64 = text.strip_prefix("flow-hash:zipf=")?.parse().ok()?;
            (0.0..=ZIPF_MAX).contains(&exponent).then_some(Balance::FlowHash { zipf: exponent })
        };
        let named = NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, balance)| balance);
        named.or_else(zipf).ok_or_else(|| {
            format!(
                "no balancer is called `{text}`; there are random, flow-hash, flow-hash:zipf=S (S from 0 to \
                 {ZIPF_MAX}, like flow-hash:zipf=0.9), two-choices and jsq"
            )
        })
    }
}

impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMED.into_iter().find(|(_, named)| named == self) {
            Some((name, _)) => f.pad(name),
            None => f.pad(&format!("flow-hash:zipf={}", self.zipf())),
        }
    }
}

impl Balance {
    /// The exponent of the flows' rates; 0 = all flows are alike.
    pub fn zipf(self) -> f64 {
        if let Balance::FlowHash { zipf } = self { zipf } else { 0.0 }
    }

    /// The busiest server's long-run share of the requests.
    pub fn busiest_share(self, servers: usize, flows: u16, seed: u64) -> f64 {
        let Balance::FlowHash { zipf } = self else { return 1.0 / servers as f64 };
        let mut rates = vec![0.0; servers];
        for (flow, server) in hashed(flows, servers, seed).into_iter().enumerate() {
            rates[server] += ((flow + 1) as f64).powf(-zipf);
        }
        rates.iter().copied().fold(0.0, f64::max) / rates.iter().sum::<f64>()
    }
}

/// A balancer with its state.
#[derive(Clone, Debug)]
pub(super) struct Balancer {
    balance: Balance,
    servers: usize,
    /// The server of each flow; empty if the balancer ignores flows.
    server_of: Vec<ServerId>,
    random: Xoshiro256PlusPlus,
}

impl Balancer {
    /// A balancer for `servers` servers, at least one.
    pub(super) fn new(balance: Balance, servers: usize, flows: u16, seed: u64) -> Balancer {
        assert!(servers > 0, "requests need a server");
        let hashes = matches!(balance, Balance::FlowHash { .. });
        let server_of = if hashes { hashed(flows, servers, seed) } else { Vec::new() };
        // The balancer has its own random stream, so its draws do not change the requests.
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6261_6c61_6e63_6572);
        Balancer { balance, servers, server_of, random }
    }

    /// The server for the next request, which belongs to `flow`. `in_flight` returns the number of
    /// requests in a server.
    pub(super) fn choose(&mut self, flow: u16, in_flight: impl Fn(ServerId) -> usize) -> ServerId {
        let Balancer { servers, ref mut random, .. } = *self;
        match self.balance {
            Balance::Random => random.random_range(0..servers),
            Balance::FlowHash { .. } => self.server_of[usize::from(flow)],
            Balance::TwoChoices if servers == 1 => 0,
            Balance::TwoChoices => {
                let one = random.random_range(0..servers);
                // One of the others.
                let other = (one + random.random_range(1..servers)) % servers;
                if in_flight(other) < in_flight(one) { other } else { one }
            }
            Balance::JoinShortestQueue => {
                let (mut fewest, mut ties, mut chosen) = (usize::MAX, 0, 0);
                for server in 0..servers {
                    let held = in_flight(server);
                    match held.cmp(&fewest) {
                        Ordering::Less => (fewest, ties, chosen) = (held, 1, server),
                        // Of `ties` servers with equally few requests, each is chosen with the same
                        // probability.
                        Ordering::Equal => {
                            ties += 1;
                            chosen = if random.random_range(0..ties) == 0 { server } else { chosen };
                        }
                        Ordering::Greater => {}
                    }
                }
                chosen
            }
        }
    }
}

/// The server of each flow: the one for which the hash of flow and server is highest.
fn hashed(flows: u16, servers: usize, seed: u64) -> Vec<ServerId> {
    // Each server has a key, drawn from the seed. Hashing flow, server and seed as one number would
    // be wrong: two similar seeds would give the same hashes to other flows.
    let mut draw = SplitMix64::seed_from_u64(seed ^ 0x7265_6e64_657a_0000);
    let keys: Vec<u64> = (0..servers).map(|_| draw.next_u64()).collect();
    let hash = |flow: u16, server: ServerId| SplitMix64::seed_from_u64(keys[server] ^ u64::from(flow)).next_u64();
    let highest = |flow| (0..servers).max_by_key(|server| hash(flow, *server)).unwrap_or(0);
    (0..flows).map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for text in ["random", "flow-hash", "flow-hash:zipf=0.9", "two-choices", "jsq"] {
            assert_eq!(text.parse::<Balance>().map(|balance| balance.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "rr", "flow-hash:", "flow-hash:zipf=", "flow-hash:zipf=-1", "flow-hash:zipf=nan", "JSQ"] {
            let error = text.parse::<Balance>().expect_err(text).to_string();
            assert!(error.contains("two-choices and jsq"), "{error}");
        }
    }

    // If a server is lost, do only its flows move, and evenly to all other servers?
    #[test]
    fn a_lost_server_moves_its_own_flows_alone() {
        let (all, left) = (hashed(16_000, 16, 1), hashed(16_000, 15, 1));
        let mut moved = vec![0; 15];
        for (before, after) in all.iter().zip(&left) {
            if *before == 15 { moved[*after] += 1 } else { assert_eq!(before, after) }
        }
        assert!(moved.iter().all(|flows| (40..100).contains(flows)), "{moved:?} of about 1,000");
        let first = all.iter().filter(|server| **server == 0).count();
        assert!((900..1_100).contains(&first), "{first} of 16,000 flows at one of 16 servers");
        // Does another seed give another hash, and not only exchange the flows of servers?
        let counts = |seed| {
            let all = hashed(4_096, 16, seed);
            let mut counts: Vec<usize> =
                (0..16).map(|server| all.iter().filter(|chosen| **chosen == server).count()).collect();
            counts.sort_unstable();
            counts
        };
        assert_ne!(counts(1), counts(2));
    }

    #[test]
    fn fewer_in_flight_win() {
        let held = [3, 1, 4, 1];
        let counts = |balance| {
            let mut balancer = Balancer::new(balance, 4, 8, 1);
            let mut counts = [0; 4];
            (0..6_000).for_each(|_| counts[balancer.choose(0, |server| held[server])] += 1);
            counts
        };
        let [none, one, never, other] = counts(Balance::JoinShortestQueue);
        assert!(none == 0 && never == 0 && one > 2_800 && other > 2_800, "{one} and {other}");
        // There are six pairs of servers. The first server wins one of them. The two servers with
        // the fewest requests win two each, and share the pair of both. The server with four
        // requests wins none.
        let [first, one, never, other] = counts(Balance::TwoChoices);
        assert!((900..1_100).contains(&first) && never == 0, "{first}");
        assert!((2_350..2_650).contains(&one) && (2_350..2_650).contains(&other), "{one} and {other}");
        assert!(counts(Balance::Random).iter().all(|count| (1_350..1_650).contains(count)));
    }

    #[test]
    fn a_large_flow_makes_a_busy_server() {
        let share = |balance: Balance, flows| balance.busiest_share(4, flows, 1);
        assert_eq!(share(Balance::TwoChoices, 100), 0.25);
        assert_eq!(share(Balance::FlowHash { zipf: 0.0 }, 1), 1.0);
        let alike = share(Balance::FlowHash { zipf: 0.0 }, 10_000);
        assert!(alike > 0.25 && alike < 0.27, "{alike}");
        // The rate falls with the square of the rank, so the largest of 10,000 flows has 6 / pi^2
        // of the total.
        let large = share(Balance::FlowHash { zipf: 2.0 }, 10_000);
        assert!(large > 0.607 && large < 0.95, "{large}");
    }
}
