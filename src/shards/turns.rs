//! Turns: of the requests of one shard, one is served at a time, in the order of their admission.
//!
//! The first request of a shard goes on as any other does. Those that come while the shard is busy
//! are set aside here, outside of all queues, and keep no worker. Each end of a request lets the
//! next one out.
//!
//! A flow is a key that the handler makes. A hash with a secret key gives each flow its shard, so
//! no client can choose flows that share one. Flows share a shard by chance only. While requests of
//! B flows run, B of [`STATELESS`](super::STATELESS) others wait for one of these.
//!
//! A mutex guards each shard, because a look at whether it is busy and at what waits has to be one
//! step. It takes some tens of nanoseconds, and requests without a flow never come here. What waits
//! is a linked list through the places of the packets. So each step takes the same time however
//! long the list is, and allocates nothing.

use super::{Bounds, Name};
use crate::runtime::continuation::lock;
use crossbeam_utils::CachePadded;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Who has each shard of one server, and who waits for it; `J` is what is set aside.
pub(crate) struct Turns<J> {
    /// Spreads keys over shards; without one, a key is the number of its shard.
    hasher: Option<RandomState>,
    shards: Box<[Mutex<ShardQueue>]>,
    /// What is set aside, each in the place of its packet's number, and the number of the packet
    /// that is next in its shard. The shard's mutex guards both.
    places: Box<[(Mutex<Option<J>>, AtomicU32)]>,
    /// Requests set aside in all shards.
    // Ordering: relaxed throughout, a number for comparisons.
    set_aside: CachePadded<AtomicUsize>,
    room: usize,
    room_of_shard: usize,
    /// How many requests found their shard full, and the shard of the last one.
    // Ordering: relaxed throughout, for a line of the log.
    found_full: AtomicU64,
    last_full: AtomicU32,
}

#[derive(Clone, Copy, Debug, Default)]
struct ShardQueue {
    busy: bool,
    /// How many requests are set aside, and the numbers of the packets of the first and the last.
    waiting: u16,
    ends: [u32; 2],
}

/// The requests that found their shard full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FullShards {
    /// How many there were.
    pub(crate) count: u64,
    /// The shard of the last one.
    pub(crate) last: u64,
}

/// What became of a request that came to its shard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered<J> {
    /// The shard has no other request: this one is served.
    Served(J),
    /// The request is set aside until its predecessor ends.
    SetAside,
    /// There is no room to set the request aside; it is not in the shard.
    Full(J),
}

impl<J> Turns<J> {
    /// So many idle shards.
    pub(crate) fn new(shards: usize, bounds: &Bounds) -> Turns<J> {
        Turns {
            hasher: Some(RandomState::new()),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            places: (0..bounds.packets).map(|_| (Mutex::new(None), AtomicU32::new(0))).collect(),
            set_aside: CachePadded::default(),
            room: bounds.set_aside,
            room_of_shard: bounds.set_aside_of_shard,
            found_full: AtomicU64::new(0),
            last_full: AtomicU32::new(0),
        }
    }

    /// The same, where a key is the number of its shard.
    #[cfg(test)]
    pub(crate) fn unhashed(self) -> Turns<J> {
        Turns { hasher: None, ..self }
    }

    /// Bytes of each packet's place among what is set aside.
    pub(crate) const PLACE_BYTES: usize = size_of::<(Mutex<Option<J>>, AtomicU32)>();

    /// The shard of this name.
    pub(crate) fn of(&self, name: Name) -> u32 {
        let number = match (name, &self.hasher) {
            (Name::Of(key), Some(hasher)) => hasher.hash_one(key),
            (Name::Of(key), None) => key,
            (Name::Number(number), _) => number.into(),
            (Name::Alone, _) => unreachable!("it has no shard"),
        };
        (number % self.shards.len() as u64) as u32
    }

    /// The shard of a sender whose requests name none.
    pub(crate) fn of_peer(&self, peer: &SocketAddr) -> u32 {
        self.of(Name::Of(self.hasher.as_ref().map_or(0, |hasher| hasher.hash_one(peer))))
    }

    /// Brings `job`, which lives in the packet of this number, to its shard. An `event` from
    /// no datagram is set aside without room, too: a shard has one at a time.
    pub(crate) fn enter(&self, shard: u32, number: usize, event: bool, job: J) -> Entered<J> {
        let mut queue = self.shard(shard);
        if !queue.busy {
            queue.busy = true;
            return Entered::Served(job);
        }
        let all = self.set_aside.fetch_add(1, Ordering::Relaxed);
        let is_full = usize::from(queue.waiting) >= self.room_of_shard;
        if !event && (is_full || all >= self.room) {
            self.set_aside.fetch_sub(1, Ordering::Relaxed);
            if is_full {
                self.found_full.fetch_add(1, Ordering::Relaxed);
                self.last_full.store(shard, Ordering::Relaxed);
            }
            return Entered::Full(job);
        }
        *lock(&self.places[number].0) = Some(job);
        let [_, last] = queue.ends;
        let place = number as u32;
        match queue.waiting {
            0 => queue.ends = [place; 2],
            _ => {
                self.places[last as usize].1.store(place, Ordering::Relaxed);
                queue.ends[1] = place;
            }
        }
        queue.waiting += 1;
        Entered::SetAside
    }

    /// Ends the request that the shard is busy with; returns the next one, which is to be served
    /// now.
    ///
    /// # Panics
    /// If the shard is not busy.
    pub(crate) fn leave(&self, shard: u32) -> Option<J> {
        let mut shard = self.shard(shard);
        assert!(shard.busy, "a request leaves the shard that it has entered, once");
        shard.busy = shard.waiting > 0;
        shard.waiting = shard.waiting.checked_sub(1)?;
        self.set_aside.fetch_sub(1, Ordering::Relaxed);
        let (job, next) = &self.places[shard.ends[0] as usize];
        shard.ends[0] = next.load(Ordering::Relaxed);
        lock(job).take()
    }

    /// How many requests were turned away because their shard was full, and the shard of the last
    /// one.
    pub(crate) fn full_shards(&self) -> FullShards {
        let [count, last] = [self.found_full.load(Ordering::Relaxed), self.last_full.load(Ordering::Relaxed).into()];
        FullShards { count, last }
    }

    /// Requests that are set aside.
    pub(crate) fn set_aside(&self) -> usize {
        self.set_aside.load(Ordering::Relaxed)
    }

    /// Shards that are busy.
    #[cfg(test)]
    pub(crate) fn busy(&self) -> usize {
        self.shards.iter().filter(|shard| lock(shard).busy).count()
    }

    fn shard(&self, shard: u32) -> MutexGuard<'_, ShardQueue> {
        // No code of a handler runs under the lock.
        lock(&self.shards[shard as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::super::STATELESS;
    use super::*;
    use std::collections::VecDeque;

    fn bounds(packets: usize, set_aside: usize, set_aside_of_shard: usize) -> Bounds {
        Bounds { packets, set_aside, set_aside_of_shard, sockets: 1, workers: 1, begun: 0 }
    }

    /// For each of two shards, the number of the request that is served, and those set aside.
    type Model = [VecDeque<usize>; 2];

    // Is one request of each shard served at a time, in the order of their arrival? Is one turned
    // away only where there is no room? Method: every sequence of arrivals and ends, to a depth,
    // beside a model.
    #[test]
    fn one_at_a_time_in_order() {
        const DEPTH: u32 = 8;
        let turns = Turns::new(2, &bounds(DEPTH as usize, 3, 2)).unhashed();
        for sequence in 0..4_u32.pow(DEPTH) {
            let mut model = Model::default();
            for number in 0..DEPTH {
                let act = sequence >> (2 * number) & 3;
                let (key, comes, number) = ((act & 1) as usize, act < 2, number as usize);
                let aside: usize = model.iter().map(|shard| shard.len().saturating_sub(1)).sum();
                let shard = &mut model[key];
                if comes {
                    let entered = turns.enter(key as u32, number, false, number);
                    match shard.len() {
                        0 => assert_eq!(entered, Entered::Served(number)),
                        1 | 2 if aside < 3 => assert_eq!(entered, Entered::SetAside),
                        _ => {
                            assert_eq!(entered, Entered::Full(number));
                            continue;
                        }
                    }
                    shard.push_back(number);
                } else if shard.pop_front().is_some() {
                    assert_eq!(turns.leave(key as u32), shard.front().copied(), "{sequence:#x}");
                }
            }
            assert_eq!(turns.set_aside(), model.iter().map(|shard| shard.len().saturating_sub(1)).sum::<usize>());
            for (key, shard) in model.iter().enumerate() {
                shard.iter().for_each(|_| _ = turns.leave(key as u32));
            }
        }
        assert_eq!((turns.busy(), turns.set_aside()), (0, 0));
    }

    #[test]
    #[should_panic(expected = "once")]
    fn a_request_that_leaves_twice_is_found_out() {
        let turns = Turns::new(8, &bounds(2, 1, 1));
        assert_eq!(turns.enter(7, 0, false, ()), Entered::Served(()));
        assert_eq!(turns.leave(7), None);
        turns.leave(7);
    }

    // Does one shard leave room for others, and is there no more room than for what was promised?
    #[test]
    fn a_shard_takes_its_own_room() {
        let turns = Turns::new(8, &bounds(500, 32, 8));
        let fits = |shard, number| !matches!(turns.enter(shard, number, false, number), Entered::Full(_));
        let fitting = |shard: u32| (0..100).filter(|number| fits(shard, shard as usize * 100 + number)).count();
        assert_eq!((0..5).map(fitting).collect::<Vec<_>>(), [9, 9, 9, 9, 1]);
        assert_eq!(turns.set_aside(), 32);
        // The last one has room of its own.
        assert_eq!(turns.full_shards(), FullShards { count: 4 * 91, last: 3 });
    }

    // Do senders without a key spread, by their hosts and by their ports, each always to the same
    // shard? Else one worker would serve all of them, one after the other.
    #[test]
    fn senders_are_spread_by_a_hash() {
        let turns = Turns::<()>::new(1_024, &bounds(0, 0, 0));
        let hosts = |number: u16| SocketAddr::from(([10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]], 53));
        let ports = |number: u16| SocketAddr::from(([192, 0, 2, 1], 1_024 + number));
        for sender in [&hosts as &dyn Fn(u16) -> SocketAddr, &ports] {
            let mut met = vec![0; 1_024];
            for peer in (0..4_096).map(sender) {
                met[turns.of_peer(&peer) as usize] += 1;
                assert_eq!(turns.of_peer(&peer), turns.of_peer(&peer));
            }
            // Of four for each shard, one in fifty shards gets none.
            assert!(met.iter().filter(|count| **count > 0).count() > 900, "{met:?}");
            assert!(met.iter().all(|count| *count < 24), "{met:?}");
        }
    }

    // Do flows spread, each always to the same shard?
    #[test]
    fn keys_are_spread_by_a_hash() {
        let [turns, others] = [(); 2].map(|()| Turns::<()>::new(STATELESS, &bounds(0, 0, 0)));
        let mut met = vec![0; STATELESS];
        let of = |turns: &Turns<()>, key| turns.of(Name::Of(key));
        (0..STATELESS as u64).for_each(|key| met[of(&turns, key) as usize] += 1);
        assert_eq!(of(&turns, 7), of(&turns, 7));
        assert!(*met.iter().max().expect("there are shards") < 16, "of a shard for each key, none gets many");
        assert!((0..8).any(|key| of(&turns, key) != of(&others, key)), "the hash has a key of its own");
        assert_eq!(turns.of(Name::Number(STATELESS as u32 + 7)), 7);
    }
}
