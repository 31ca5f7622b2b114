//! What goes to the kernel as one: a message, or a train of messages to one peer.
//!
//! The kernel takes a train through its layers once and cuts it at the end (`UDP_SEGMENT`). All messages of a train are
//! equally long, only the last one may be shorter. Messages to one peer stay in their order; those to different peers
//! may overtake each other.

use super::Message;
use crate::net::GATHER;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// The bytes of a train must fit one datagram of either family, with room for the options of IPv4.
const TRAIN_MAX_BYTES: usize = 65_535 - 60 - 8;
/// Messages of a train: what every kernel that cuts trains accepts (`UDP_MAX_SEGMENTS`; newer ones take twice as many).
const TRAIN_MAX: usize = 64;

/// How a batch of messages goes out. Its memory is used again, and moved nowhere: most batches are far shorter.
pub(super) struct Plan {
    /// The messages by number, those of a parcel side by side.
    order: Vec<usize>,
    parcels: Vec<Parcel>,
    keys: Vec<u64>,
}

/// Messages that the kernel takes together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parcel {
    /// Where its messages stand in the order.
    first: usize,
    count: usize,
    /// The length of each of its messages, except that the last may be shorter.
    length: usize,
    local: Option<IpAddr>,
    /// It must not be in a call that cuts trains.
    plain: bool,
}

impl Plan {
    /// An empty one, with memory for [`GATHER`] messages.
    pub(super) fn new() -> Plan {
        let (order, parcels) = (Vec::with_capacity(GATHER), Vec::with_capacity(GATHER));
        Plan { order, parcels, keys: Vec::with_capacity(GATHER) }
    }

    /// Every message by itself.
    pub(super) fn singles(&mut self, messages: &[Message<'_>]) {
        self.clear();
        self.order.extend(0..messages.len());
        let single =
            |(first, message): (usize, &Message<'_>)| Parcel { first, count: 1, ..Parcel::starting_with(message) };
        self.parcels.extend(messages.iter().enumerate().map(single));
    }

    /// Messages to one peer in trains, also when others stand between them.
    pub(super) fn trains(&mut self, messages: &[Message<'_>]) {
        self.clear();
        self.keys.extend(messages.iter().map(|message| key(message.peer)));
        let mut taken = [false; GATHER];
        for (start, message) in messages.iter().enumerate() {
            if taken[start] {
                continue;
            }
            let first = self.order.len();
            self.order.push(start);
            let (mut parcel, mut bytes) = (Parcel::starting_with(message), message.bytes.len());
            for next in start + 1..messages.len() {
                if self.keys[next] != self.keys[start] || taken[next] || messages[next].peer != message.peer {
                    continue;
                }
                let candidate = &messages[next];
                bytes += candidate.bytes.len();
                let fits = candidate.bytes.len() <= parcel.length && bytes <= TRAIN_MAX_BYTES;
                if !fits || candidate.local != message.local || candidate.bytes.is_empty() {
                    // What comes after it must not overtake it.
                    break;
                }
                taken[next] = true;
                self.order.push(next);
                if candidate.bytes.len() < parcel.length || self.order.len() - first == TRAIN_MAX {
                    break;
                }
            }
            parcel = Parcel { first, count: self.order.len() - first, ..parcel };
            self.parcels.push(parcel);
        }
    }

    fn clear(&mut self) {
        self.order.clear();
        self.parcels.clear();
        self.keys.clear();
    }

    /// The parcels, in the order in which they go out.
    pub(super) fn parcels(&self) -> &[Parcel] {
        &self.parcels
    }

    /// The numbers of the messages in `parcel`.
    pub(super) fn messages(&self, parcel: &Parcel) -> &[usize] {
        &self.order[parcel.places()]
    }

    /// Makes a parcel of each message of number `at`, and keeps them out of calls that cut trains.
    pub(super) fn split(&mut self, at: usize) {
        let train = self.parcels.remove(at);
        for place in train.places().rev() {
            self.parcels.insert(at, Parcel { first: place, count: 1, plain: true, ..train });
        }
    }

    /// How many of the parcels from number `at` on can go out in one call, and how it cuts them.
    pub(super) fn run(&self, at: usize) -> Run {
        let first = &self.parcels[at];
        let mut run = Run { count: 0, local: first.local, segment: None };
        let (mut longest, mut plain) = (0, false);
        for parcel in &self.parcels[at..] {
            let segment = if parcel.is_train() { Some(parcel.length) } else { run.segment };
            longest = longest.max(parcel.length);
            plain |= parcel.plain;
            // One length holds for the whole call. A single message that is not longer stays whole.
            let cuts_others = run.segment.is_some() && segment != run.segment;
            let cuts_these = segment.is_some_and(|segment| plain || longest > segment);
            if parcel.local != run.local || cuts_others || cuts_these {
                break;
            }
            run.segment = segment;
            run.count += 1;
        }
        run
    }
}

/// What the parcels of one call have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// How many parcels.
    pub(super) count: usize,
    /// The address they come from; `None` where the socket has but one.
    pub(super) local: Option<IpAddr>,
    /// The length at which the kernel cuts trains; `None` without trains.
    pub(super) segment: Option<usize>,
}

impl Parcel {
    fn starting_with(message: &Message<'_>) -> Parcel {
        Parcel { first: 0, count: 0, length: message.bytes.len(), local: message.local, plain: false }
    }

    /// Whether it has more than one message.
    pub(super) fn is_train(&self) -> bool {
        self.count > 1
    }

    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// Equal for equal peers, and rarely for others: comparing it first makes looking for a peer's messages cheap.
fn key(peer: SocketAddr) -> u64 {
    let address = match peer.ip() {
        IpAddr::V4(ip) => u64::from(u32::from(ip)),
        IpAddr::V6(ip) => {
            let ip = u128::from(ip);
            (ip >> 64) as u64 ^ ip as u64
        }
    };
    address << 16 ^ u64::from(peer.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    const BYTES: [u8; 2048] = [0; 2048];

    fn message(peer: u8, length: usize, local: Option<u8>) -> Message<'static> {
        let address = |last: u8| match peer % 2 {
            0 => IpAddr::from(Ipv4Addr::new(127, 0, 0, last)),
            _ => Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, last.into()).into(),
        };
        Message { bytes: &BYTES[..length], peer: (address(peer), 9).into(), local: local.map(address) }
    }

    fn trains(messages: &[Message<'_>]) -> Plan {
        let mut plan = Plan::new();
        plan.trains(messages);
        plan
    }

    fn parcels(messages: &[(u8, usize)]) -> Vec<Vec<usize>> {
        let messages: Vec<_> = messages.iter().map(|(peer, length)| message(*peer, *length, None)).collect();
        let plan = trains(&messages);
        plan.parcels().iter().map(|parcel| plan.messages(parcel).to_vec()).collect()
    }

    #[test]
    fn messages_to_one_peer_go_together_also_when_others_stand_between() {
        assert_eq!(parcels(&[(1, 9), (2, 9), (1, 9), (3, 9), (2, 9), (1, 9)]), [vec![0, 2, 5], vec![1, 4], vec![3]]);
    }

    #[test]
    fn a_train_ends_with_a_shorter_message_and_before_a_longer_one() {
        assert_eq!(parcels(&[(1, 9), (1, 9), (1, 5), (1, 9), (1, 10), (1, 5)]), [vec![0, 1, 2], vec![3], vec![4, 5]]);
    }

    #[test]
    fn an_empty_message_goes_alone() {
        assert_eq!(parcels(&[(1, 0), (1, 0), (1, 9), (1, 0)]), [vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn a_train_fits_a_datagram_and_the_kernel() {
        let lengths: Vec<usize> = parcels(&[(1, 2048); GATHER]).iter().map(Vec::len).collect();
        assert_eq!(lengths, [31, 31, 31, 31, 4]);
        let lengths: Vec<usize> = parcels(&[(1, 9); GATHER]).iter().map(Vec::len).collect();
        assert_eq!(lengths, [TRAIN_MAX; GATHER / TRAIN_MAX]);
    }

    #[test]
    fn a_run_cuts_at_one_length_and_comes_from_one_address() {
        let lengths = [(1, 9), (1, 9), (2, 5), (3, 9), (3, 9), (4, 8), (4, 8), (5, 10), (6, 9), (6, 9)];
        let mut messages: Vec<_> = lengths.iter().map(|(peer, length)| message(*peer, *length, Some(1))).collect();
        messages.push(message(7, 9, Some(2)));
        let plan = trains(&messages);
        let mut runs = Vec::new();
        let mut at = 0;
        while at < plan.parcels().len() {
            let run = plan.run(at);
            runs.push((run.count, run.segment));
            at += run.count;
        }
        // The message of 10 would be cut by the train of 9 behind it, and the other family has other addresses.
        assert_eq!(runs, [(1, Some(9)), (1, None), (1, Some(9)), (1, Some(8)), (1, None), (1, Some(9)), (1, None)]);
    }

    proptest! {
        // Does every message go out once, in its peer's order, in trains that the kernel cuts where they were joined?
        #[test]
        fn every_plan_is_sound(batch in prop::collection::vec((0..4_u8, 0..6_usize, prop::option::of(0..2_u8)), 0..GATHER)) {
            let messages: Vec<_> = batch.iter().map(|(peer, length, local)| message(*peer, *length, *local)).collect();
            let plan = trains(&messages);
            let order: Vec<usize> = plan.parcels().iter().flat_map(|parcel| plan.messages(parcel).to_vec()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..messages.len()).collect::<Vec<_>>());
            for peer in 0..4 {
                prop_assert!(order.iter().filter(|number| batch[**number].0 == peer).is_sorted());
            }
            for parcel in plan.parcels() {
                let numbers = plan.messages(parcel);
                let (last, others) = numbers.split_last().expect("no parcel is empty");
                prop_assert!(others.iter().all(|number| batch[*number].1 == parcel.length));
                prop_assert!(batch[*last].1 <= parcel.length && (numbers.len() == 1 || batch[*last].1 > 0));
                prop_assert!(numbers.iter().all(|number| messages[*number].local == parcel.local));
                prop_assert!(numbers.iter().all(|number| messages[*number].peer == messages[*last].peer));
            }
            let mut at = 0;
            while at < plan.parcels().len() {
                let run = plan.run(at);
                prop_assert!(run.count > 0);
                for parcel in &plan.parcels()[at..at + run.count] {
                    prop_assert_eq!(parcel.local, run.local);
                    prop_assert!(!parcel.is_train() || run.segment == Some(parcel.length));
                    prop_assert!(run.segment.is_none_or(|segment| parcel.length <= segment));
                }
                at += run.count;
            }
        }
    }
}
