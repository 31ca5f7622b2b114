//! Flows: of the requests with one key, one is served at a time, in the order of their admission.
//!
//! A flow is in the table while it has a request in the server. Its first request goes on as any
//! other does. Those that come while it is busy are set aside here, outside of all queues, and keep
//! no worker. Each end of a request lets the next one out.
//!
//! A mutex guards each shard, because a look at two collections has to be one step. It takes some
//! tens of nanoseconds, and requests without a key never come here.

use crate::runtime::continuation::lock;
use crossbeam_utils::CachePadded;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};

/// The flows of one server; `J` is what is set aside.
pub(crate) struct Flows<J> {
    hasher: RandomState,
    shards: Box<[CachePadded<Mutex<Shard<J>>>]>,
    /// Busy flows of one shard, at most. There are as many shards as workers, and each flow has a
    /// packet. So if all packets are in use, a shard has as many flows as a worker has packets.
    /// Keys are spread by a keyed hash; twice as many never meet by chance.
    busy_max: usize,
    /// Requests set aside in one shard, at most.
    room: usize,
    /// Requests of one flow set aside, at most.
    room_of_flow: usize,
}

struct Shard<J> {
    /// For each busy flow, the number of its requests that are set aside.
    busy: HashMap<u64, usize>,
    /// The requests that are set aside, each with the key of its flow, in the order of admission.
    set_aside: VecDeque<(u64, J)>,
}

/// What became of a request that came to its flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entered<J> {
    /// The flow has no other request: this one is served.
    Served(J),
    /// The request is set aside until its predecessor ends.
    SetAside,
    /// There is no room to set the request aside; it is not in the flow.
    Full(J),
}

impl<J> Flows<J> {
    /// No flows yet. Each of `shards` shards, for so many `packets`, has room to set `room`
    /// requests aside, `room_of_flow` of one flow.
    pub(crate) fn new(shards: usize, packets: usize, [room, room_of_flow]: [usize; 2]) -> Flows<J> {
        let busy_max = 2 * packets;
        let shard = || Shard {
            // A map of twice the size clears up what was removed without growing.
            busy: HashMap::with_capacity(2 * busy_max),
            set_aside: VecDeque::with_capacity(room),
        };
        let shards = (0..shards).map(|_| CachePadded::new(Mutex::new(shard()))).collect();
        Flows { hasher: RandomState::new(), shards, busy_max, room, room_of_flow }
    }

    /// Bytes of one shard for so many `packets`, with room to set `room` requests aside.
    pub(crate) fn shard_bytes(packets: usize, room: usize) -> usize {
        // Of eight places a map fills seven; each takes a byte besides its entry.
        let places = HashMap::<u64, usize>::with_capacity(4 * packets).capacity() / 7 * 8;
        places * (size_of::<(u64, usize)>() + 1)
            + room * size_of::<(u64, J)>()
            + size_of::<CachePadded<Mutex<Shard<J>>>>()
    }

    /// Brings `job` to the flow of `key`.
    pub(crate) fn enter(&self, key: u64, job: J) -> Entered<J> {
        let mut shard = self.shard(key);
        let Shard { busy, set_aside } = &mut *shard;
        let fits = busy.len() < self.busy_max;
        match busy.entry(key) {
            Entry::Vacant(flow) if fits => {
                flow.insert(0);
                Entered::Served(job)
            }
            Entry::Occupied(mut flow) if *flow.get() < self.room_of_flow && set_aside.len() < self.room => {
                *flow.get_mut() += 1;
                set_aside.push_back((key, job));
                Entered::SetAside
            }
            _ => Entered::Full(job),
        }
    }

    /// Ends the request that the flow of `key` is busy with; returns the next one, which is to be
    /// served now.
    ///
    /// # Panics
    /// If the flow is not busy.
    pub(crate) fn leave(&self, key: u64) -> Option<J> {
        let mut shard = self.shard(key);
        let Shard { busy, set_aside } = &mut *shard;
        let waiting = busy.get_mut(&key).expect("a request leaves the flow that it has entered, once");
        if *waiting == 0 {
            busy.remove(&key);
            return None;
        }
        *waiting -= 1;
        let place = set_aside.iter().position(|(of, _)| *of == key).expect("the flow has requests set aside");
        set_aside.remove(place).map(|(_, job)| job)
    }

    /// Requests that are set aside.
    pub(crate) fn set_aside(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).set_aside.len()).sum()
    }

    /// Flows that are busy.
    #[cfg(test)]
    pub(crate) fn busy(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).busy.len()).sum()
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard<J>> {
        // No code of a handler runs under the lock.
        lock(&self.shards[self.hasher.hash_one(key) as usize % self.shards.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a shard as large as its map and its queue, whose places are a power of two, more than
    // there may be flows?
    #[test]
    fn a_shard_takes_what_is_said() {
        let flows = Flows::<usize>::new(1, 640, [32, 8]);
        let shard = lock(&flows.shards[0]);
        let places = (shard.busy.capacity() + 1).next_power_of_two();
        let least = places * (16 + 1) + shard.set_aside.capacity() * 16;
        let said = Flows::<usize>::shard_bytes(640, 32);
        assert!(places > 4 * 640 && (least..least + 1_000).contains(&said), "{said} bytes said, {least} at least");
    }

    /// For each key, the number of the request that is served, and those that are set aside.
    type Model = [VecDeque<usize>; 2];

    // Is one request of each flow served at a time, in the order of their arrival? Is one turned
    // away only where there is no room? Method: every sequence of arrivals and ends, to a depth,
    // beside a model.
    #[test]
    fn one_at_a_time_in_order() {
        const DEPTH: u32 = 8;
        for sequence in 0..4_u32.pow(DEPTH) {
            let (flows, mut model) = (Flows::new(1, 640, [3, 2]), Model::default());
            for number in 0..DEPTH {
                let act = sequence >> (2 * number) & 3;
                let (key, comes, number) = ((act & 1) as usize, act < 2, number as usize);
                let aside: usize = model.iter().map(|flow| flow.len().saturating_sub(1)).sum();
                let flow = &mut model[key];
                if comes {
                    let entered = flows.enter(key as u64, number);
                    match flow.len() {
                        0 => assert_eq!(entered, Entered::Served(number)),
                        1 | 2 if aside < 3 => assert_eq!(entered, Entered::SetAside),
                        _ => {
                            assert_eq!(entered, Entered::Full(number));
                            continue;
                        }
                    }
                    flow.push_back(number);
                } else if flow.pop_front().is_some() {
                    assert_eq!(flows.leave(key as u64), flow.front().copied(), "{sequence:#x}");
                }
            }
            let busy = model.iter().filter(|flow| !flow.is_empty()).count();
            let aside: usize = model.iter().map(|flow| flow.len().saturating_sub(1)).sum();
            assert_eq!((flows.busy(), flows.set_aside()), (busy, aside));
        }
    }

    #[test]
    #[should_panic(expected = "once")]
    fn a_request_that_leaves_twice_is_found_out() {
        let flows = Flows::new(2, 640, [1, 1]);
        assert_eq!(flows.enter(7, ()), Entered::Served(()));
        assert_eq!(flows.leave(7), None);
        flows.leave(7);
    }

    // Does one flow leave room for others, and is there no more room than for what was promised?
    #[test]
    fn a_flow_takes_its_own_room() {
        let flows = Flows::new(1, 640, [32, 8]);
        let fitting = |key| (0..100).filter(|job| !matches!(flows.enter(key, *job), Entered::Full(_))).count();
        assert_eq!((0..5).map(fitting).collect::<Vec<_>>(), [9, 9, 9, 9, 1]);
        assert_eq!(flows.set_aside(), 32);
    }
}
