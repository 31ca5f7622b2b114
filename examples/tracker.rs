//! A BitTorrent tracker ([BEP 15](https://www.bittorrent.org/beps/bep_0015.html)): clients that
//! share a file announce themselves, and get the addresses of others.
//!
//! A shard keeps swarms, by the hash of their ID, and forgets peers by a timer. A scrape asks for
//! many swarms, so its shard asks other shards by messages, and answers when all have replied. A
//! connection ID is a keyed hash of the address. It proves the address, and the server keeps
//! nothing for it.
//!
//! `cargo run --example tracker -- 127.0.0.1:6969`

#![allow(clippy::print_stdout, reason = "an example says where it listens")]
#![allow(clippy::disallowed_methods, reason = "the library has a clock of its own, and a service std's")]

use forebay::fate::{Malformed, Refused};
use forebay::handler::{Transmit, Unserved};
use forebay::time::{Nanos, clock};
use forebay::{Admitted, Arrival, Event, Out, Rejected, Reply, Request, Server, Service};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

const PROTOCOL: u64 = 0x0417_2710_1980;
// Actions, and events of an announcement.
const CONNECT: u32 = 0;
const ANNOUNCE: u32 = 1;
const SCRAPE: u32 = 2;
const ERROR: u32 = 3;
const COMPLETED: u32 = 1;
const STOPPED: u32 = 3;

/// How often clients announce themselves. A peer that has missed two announcements is forgotten.
const INTERVAL: Duration = Duration::from_secs(1_800);
/// A connection ID is valid for one to two of these times.
const EPOCH: Nanos = Nanos::from_secs(120);
/// The longest answer, which fits into one packet of any network: 230 peers, over IPv6 76.
const ANSWER_MAX: usize = 1_400;
/// Bounds, because one client may have many addresses, though each is proven.
const PEERS_MAX: usize = 2_000;
const SWARMS_MAX: usize = 1_000;
/// The most swarms of one scrape (BEP 15), and the most scrapes that wait in a shard.
const SCRAPED_MAX: usize = 74;
const SCRAPES_MAX: usize = 64;

type Hash = [u8; 20];

#[derive(Default)]
struct Tracker {
    keys: RandomState,
}

#[derive(Default)]
struct Shard {
    swarms: HashMap<Hash, Swarm>,
    scrapes: HashMap<u64, Scrape>,
    scraped: u64,
}

#[derive(Default)]
struct Swarm {
    peers: Vec<Peer>,
    completed: u32,
}

struct Peer {
    address: SocketAddr,
    seeds: bool,
    seen: Instant,
}

/// A scrape whose shard waits for others.
struct Scrape {
    client: SocketAddr,
    local: SocketAddr,
    answer: Vec<u8>,
    missing: usize,
}

/// A shard asks another one for the counts of a swarm, or answers.
enum Between {
    Ask { hash: Hash, shard: usize, scrape: u64, place: usize },
    Tell { scrape: u64, place: usize, counts: [u32; 3] },
}

impl Swarm {
    /// Seeders, completed, leechers.
    fn counts(&self) -> [u32; 3] {
        let seeders = self.peers.iter().filter(|peer| peer.seeds).count() as u32;
        [seeders, self.completed, self.peers.len() as u32 - seeders]
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_be_bytes)
}

fn hash_at(bytes: &[u8], at: usize) -> Hash {
    bytes[at..at + 20].try_into().unwrap_or_default()
}

impl Tracker {
    /// The ID that proves `address`, `ago` epochs in the past.
    fn connection(&self, address: IpAddr, ago: u64) -> u64 {
        let epoch = clock::realtime().get() / EPOCH.get();
        self.keys.hash_one((address, epoch - ago))
    }

    fn shard_of(&self, hash: &Hash) -> u32 {
        (self.keys.hash_one(hash) % Self::SHARDS as u64) as u32
    }

    fn announce(&self, shard: &mut Shard, request: &Request<'_>, out: &mut Out<'_, Between>) {
        let (bytes, now) = (request.bytes(), Instant::now());
        let (hash, port) = (hash_at(bytes, 16), u16::from_be_bytes([bytes[96], bytes[97]]));
        let address = SocketAddr::new(request.peer().ip(), port);
        if shard.swarms.len() >= SWARMS_MAX && !shard.swarms.contains_key(&hash) {
            return;
        }
        if shard.swarms.is_empty() {
            let _ = out.at(0, now + INTERVAL);
        }
        let swarm = shard.swarms.entry(hash).or_default();
        swarm.peers.retain(|peer| peer.address != address);
        let event = u32_at(bytes, 80);
        swarm.completed += u32::from(event == COMPLETED);
        let [seeders, _, leechers] = swarm.counts();
        let reply = out.reply();
        let head = [ANNOUNCE, u32_at(bytes, 12), INTERVAL.as_secs() as u32, leechers, seeders];
        let _ = head.iter().try_for_each(|word| reply.put(&word.to_be_bytes()));
        // Different clients get different peers first.
        let begin = self.keys.hash_one(address) as usize % swarm.peers.len().max(1);
        let wanted = (u32_at(bytes, 92) as usize).min(swarm.peers.len());
        let others = swarm.peers.iter().cycle().skip(begin).take(if event == STOPPED { 0 } else { wanted });
        for other in others.filter(|other| other.address.is_ipv4() == address.is_ipv4()) {
            let port = other.address.port().to_be_bytes();
            let bytes = match other.address.ip() {
                IpAddr::V4(ip) => [&ip.octets()[..], &port].concat(),
                IpAddr::V6(ip) => [&ip.octets()[..], &port].concat(),
            };
            if reply.room() < bytes.len() || reply.put(&bytes).is_err() {
                break;
            }
        }
        if event != STOPPED && swarm.peers.len() < PEERS_MAX {
            let seeds = bytes[64..72].iter().all(|byte| *byte == 0);
            swarm.peers.push(Peer { address, seeds, seen: now });
        }
    }

    /// Asks the shards of all swarms, perhaps also this shard.
    fn scrape(&self, shard: &mut Shard, request: &Request<'_>, out: &Out<'_, Between>) {
        let bytes = request.bytes();
        let hashes = bytes[16..].chunks_exact(20).take(SCRAPED_MAX);
        if shard.scrapes.len() >= SCRAPES_MAX {
            return;
        }
        shard.scraped += 1;
        let mut answer = [SCRAPE.to_be_bytes(), u32_at(bytes, 12).to_be_bytes()].concat();
        let missing = hashes.len();
        answer.resize(8 + 12 * missing, 0);
        let (client, local, scrape) = (request.peer(), request.local(), shard.scraped);
        shard.scrapes.insert(scrape, Scrape { client, local, answer, missing });
        for (place, hash) in hashes.enumerate() {
            let hash = hash_at(hash, 0);
            let ask = Between::Ask { hash, shard: out.shard(), scrape, place };
            if out.teller().tell(self.shard_of(&hash) as usize, ask).is_err() {
                shard.scrapes.remove(&scrape); // the client asks again
                return;
            }
        }
    }
}

impl Service for Tracker {
    type Ticket = ();
    type Shard = Shard;
    type Message = Between;

    const REASON_NAMES: &'static [&'static str] = &["connection"];

    fn shard(&self, _: usize) -> Shard {
        Shard::default()
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let (bytes, ip) = (arrival.bytes(), arrival.peer().ip());
        if bytes.len() < 16 {
            return Err(Rejected::Malformed(Malformed::Other));
        }
        let id = u64::from_be_bytes(bytes[..8].try_into().unwrap_or_default());
        let hash = match u32_at(bytes, 8) {
            CONNECT if id == PROTOCOL => return Ok(Admitted::default()),
            ANNOUNCE if bytes.len() >= 98 => hash_at(bytes, 16),
            SCRAPE if bytes.len() >= 36 => hash_at(bytes, 16),
            _ => return Err(Rejected::Malformed(Malformed::Other)),
        };
        if ![0, 1].iter().any(|ago| self.connection(ip, *ago) == id) {
            return Err(Rejected::Refused(Admitted::default(), Refused::Other).because(0));
        }
        Ok(Admitted::new(()).shard(self.shard_of(&hash)).validated(true).reply_limit(ANSWER_MAX))
    }

    async fn handle(&self, shard: &mut Shard, event: Event<'_, (), Between>, out: &mut Out<'_, Between>) {
        match event {
            Event::Datagram(request) => match u32_at(request.bytes(), 8) {
                CONNECT => {
                    let id = self.connection(request.peer().ip(), 0);
                    let head = [CONNECT.to_be_bytes(), u32_at(request.bytes(), 12).to_be_bytes()].concat();
                    let _ = out.reply().put(&[head, id.to_be_bytes().to_vec()].concat());
                }
                ANNOUNCE => self.announce(shard, &request, out),
                _ => self.scrape(shard, &request, out),
            },
            Event::Message(Between::Ask { hash, shard: asking, scrape, place }) => {
                let counts = shard.swarms.get(&hash).map(Swarm::counts).unwrap_or_default();
                let _ = out.teller().tell(asking, Between::Tell { scrape, place, counts });
            }
            Event::Message(Between::Tell { scrape, place, counts }) => {
                let Some(waiting) = shard.scrapes.get_mut(&scrape) else { return };
                let counts = counts.map(u32::to_be_bytes).concat();
                waiting.answer[8 + 12 * place..][..12].copy_from_slice(&counts);
                waiting.missing -= 1;
                if let Some(done) = (waiting.missing == 0).then(|| shard.scrapes.remove(&scrape)).flatten() {
                    let answer = Transmit::new(&done.answer).from(done.local).validated();
                    let _ = out.send(done.client, answer);
                }
            }
            // Also forgets a scrape whose message was lost.
            Event::Timer { due, .. } => {
                let now = Instant::now();
                for swarm in shard.swarms.values_mut() {
                    swarm.peers.retain(|peer| peer.seen + 2 * INTERVAL > now);
                }
                shard.swarms.retain(|_, swarm| !swarm.peers.is_empty());
                shard.scrapes.clear();
                if !shard.swarms.is_empty() {
                    let _ = out.at(0, due + INTERVAL);
                }
            }
            _ => {}
        }
    }

    /// The connection ID is too old, or belongs to another address.
    fn refuse(&self, request: Request<'_>, _: Unserved, reply: &mut Reply<'_>) {
        let head = [ERROR.to_be_bytes(), u32_at(request.bytes(), 12).to_be_bytes()].concat();
        let _ = reply.put(&head).and_then(|()| reply.put(b"connect"));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:6969".into());
    let server = Server::builder().set("listen", &address).bind()?.stop_on_signals()?;
    println!("{}", server.announcement());
    server.run(&Tracker::default())?;
    Ok(())
}
