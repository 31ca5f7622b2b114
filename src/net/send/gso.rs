//! Plans of what goes to the kernel as one: a message, or a GSO batch of messages to one peer.
//!
//! The kernel takes a GSO batch through its layers once and cuts it at the end (`UDP_SEGMENT`). All messages of a GSO
//! batch are equally long, only the last one may be shorter. Messages to one peer stay in their order; messages to
//! different peers may overtake each other.

use super::Message;
use crate::net::SEND_BATCH_MAX;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// The bytes of a GSO batch must fit one datagram of either family, with room for the options of IPv4.
const GSO_MAX_BYTES: usize = 65_535 - 60 - 8;
/// The largest GSO batch in messages, accepted by every kernel with GSO (`UDP_MAX_SEGMENTS`; newer ones take twice as
/// many).
const GSO_SEGMENTS_MAX: usize = 64;

/// The plan for sending a batch of messages. Its memory is reused, and never moved: most batches are far shorter.
pub(in crate::net) struct GsoPlan {
    /// Indices of the messages, with the messages of a batch side by side.
    order: Vec<usize>,
    /// The batches, in the order of sending.
    pub(super) batches: Vec<GsoBatch>,
    keys: Vec<u64>,
}

/// Messages that the kernel takes together or not at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GsoBatch {
    /// The place of its first message in the order.
    first: usize,
    count: usize,
    /// The segment size: the length of each of its messages, except that the last may be shorter.
    length: usize,
    local: Option<IpAddr>,
    /// True if it must not be in a call that cuts GSO batches.
    plain: bool,
}

impl GsoPlan {
    /// An empty plan, with memory for [`SEND_BATCH_MAX`] messages.
    pub(super) fn new() -> GsoPlan {
        let (order, batches) = (Vec::with_capacity(SEND_BATCH_MAX), Vec::with_capacity(SEND_BATCH_MAX));
        GsoPlan { order, batches, keys: Vec::with_capacity(SEND_BATCH_MAX) }
    }

    /// Plans messages to one peer as GSO batches, even when others stand between them; without `gso` each by itself.
    pub(super) fn plan(&mut self, messages: &[Message<'_>], gso: bool) {
        self.order.clear();
        self.batches.clear();
        self.keys.clear();
        let end = if gso { messages.len() } else { 0 };
        self.keys.extend(messages.iter().map(|message| key(message.peer)));
        let mut taken = [false; SEND_BATCH_MAX];
        for (start, message) in messages.iter().enumerate() {
            if taken[start] {
                continue;
            }
            let first = self.order.len();
            self.order.push(start);
            let length = message.bytes.len();
            let mut bytes = length;
            for next in start + 1..end {
                if self.keys[next] != self.keys[start] || taken[next] || messages[next].peer != message.peer {
                    continue;
                }
                let candidate = &messages[next];
                bytes += candidate.bytes.len();
                let fits = candidate.bytes.len() <= length && bytes <= GSO_MAX_BYTES;
                if !fits || candidate.local != message.local || candidate.bytes.is_empty() {
                    // A later message to this peer must not overtake it.
                    break;
                }
                taken[next] = true;
                self.order.push(next);
                if candidate.bytes.len() < length || self.order.len() - first == GSO_SEGMENTS_MAX {
                    break;
                }
            }
            let count = self.order.len() - first;
            self.batches.push(GsoBatch { first, count, length, local: message.local, plain: false });
        }
    }

    /// The indices of the messages in `batch`.
    pub(super) fn messages(&self, batch: &GsoBatch) -> &[usize] {
        &self.order[batch.places()]
    }

    /// Splits batch `at` into single messages, and keeps them out of calls that cut GSO batches.
    pub(super) fn split(&mut self, at: usize) {
        let batch = self.batches.remove(at);
        for place in batch.places().rev() {
            self.batches.insert(at, GsoBatch { first: place, count: 1, plain: true, ..batch });
        }
    }

    /// The call for the batches from number `at` on: how many can go out together, and its segment size.
    pub(super) fn call(&self, at: usize) -> Call {
        let first = &self.batches[at];
        let mut call = Call { first: at, count: 0, local: first.local, segment: None };
        let (mut longest, mut plain) = (0, false);
        for batch in &self.batches[at..] {
            let segment = if batch.count > 1 { Some(batch.length) } else { call.segment };
            longest = longest.max(batch.length);
            plain |= batch.plain;
            // One segment size holds for the whole call. A single message that is not longer stays whole.
            let cuts_others = call.segment.is_some() && segment != call.segment;
            let cuts_these = segment.is_some_and(|segment| plain || longest > segment);
            if batch.local != call.local || cuts_others || cuts_these {
                break;
            }
            call.segment = segment;
            call.count += 1;
        }
        call
    }
}

/// The common properties of the batches of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Call {
    /// The number of its first batch, and how many there are.
    pub(super) first: usize,
    pub(super) count: usize,
    /// The source address; `None` where the socket has only one.
    pub(super) local: Option<IpAddr>,
    /// The segment size; `None` without GSO batches.
    pub(super) segment: Option<usize>,
}

impl GsoBatch {
    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}

/// A hash of `peer`, equal for equal peers and rarely for others: comparing it first makes looking for a peer's
/// messages cheap.
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

    fn segmented(messages: &[Message<'_>]) -> GsoPlan {
        let mut plan = GsoPlan::new();
        plan.plan(messages, true);
        plan
    }

    fn batches(messages: &[(u8, usize)]) -> Vec<Vec<usize>> {
        let messages: Vec<_> = messages.iter().map(|(peer, length)| message(*peer, *length, None)).collect();
        let plan = segmented(&messages);
        plan.batches.iter().map(|batch| plan.messages(batch).to_vec()).collect()
    }

    #[test]
    fn messages_to_one_peer_go_together_also_when_others_stand_between() {
        assert_eq!(batches(&[(1, 9), (2, 9), (1, 9), (3, 9), (2, 9), (1, 9)]), [vec![0, 2, 5], vec![1, 4], vec![3]]);
    }

    #[test]
    fn a_gso_batch_ends_with_a_shorter_message_and_before_a_longer_one() {
        assert_eq!(batches(&[(1, 9), (1, 9), (1, 5), (1, 9), (1, 10), (1, 5)]), [vec![0, 1, 2], vec![3], vec![4, 5]]);
    }

    #[test]
    fn an_empty_message_goes_alone() {
        assert_eq!(batches(&[(1, 0), (1, 0), (1, 9), (1, 0)]), [vec![0], vec![1], vec![2], vec![3]]);
    }

    #[test]
    fn a_gso_batch_fits_a_datagram_and_the_kernel() {
        let lengths: Vec<usize> = batches(&[(1, 2048); SEND_BATCH_MAX]).iter().map(Vec::len).collect();
        assert_eq!(lengths, [31, 31, 31, 31, 4]);
        let lengths: Vec<usize> = batches(&[(1, 9); SEND_BATCH_MAX]).iter().map(Vec::len).collect();
        assert_eq!(lengths, [GSO_SEGMENTS_MAX; SEND_BATCH_MAX / GSO_SEGMENTS_MAX]);
    }

    #[test]
    fn a_run_cuts_at_one_length_and_comes_from_one_address() {
        let lengths = [(1, 9), (1, 9), (2, 5), (3, 9), (3, 9), (4, 8), (4, 8), (5, 10), (6, 9), (6, 9)];
        let mut messages: Vec<_> = lengths.iter().map(|(peer, length)| message(*peer, *length, Some(1))).collect();
        messages.push(message(7, 9, Some(2)));
        let plan = segmented(&messages);
        let mut runs = Vec::new();
        let mut at = 0;
        while at < plan.batches.len() {
            let call = plan.call(at);
            runs.push((call.count, call.segment));
            at += call.count;
        }
        // The message of 10 would be cut by the GSO batch of 9 behind it, and the other family has other addresses.
        assert_eq!(runs, [(1, Some(9)), (1, None), (1, Some(9)), (1, Some(8)), (1, None), (1, Some(9)), (1, None)]);
    }

    proptest! {
        // Does every message go out once, in its peer's order, in GSO batches that the kernel cuts where they were
        // joined?
        #[test]
        fn every_plan_is_sound(drawn in prop::collection::vec((0..4_u8, 0..6_usize, prop::option::of(0..2_u8)), 0..SEND_BATCH_MAX)) {
            let messages: Vec<_> = drawn.iter().map(|(peer, length, local)| message(*peer, *length, *local)).collect();
            let plan = segmented(&messages);
            let order: Vec<usize> = plan.batches.iter().flat_map(|batch| plan.messages(batch).to_vec()).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..messages.len()).collect::<Vec<_>>());
            for peer in 0..4 {
                prop_assert!(order.iter().filter(|number| drawn[**number].0 == peer).is_sorted());
            }
            for batch in &plan.batches {
                let numbers = plan.messages(batch);
                let (last, others) = numbers.split_last().expect("no batch is empty");
                prop_assert!(others.iter().all(|number| drawn[*number].1 == batch.length));
                prop_assert!(drawn[*last].1 <= batch.length && (numbers.len() == 1 || drawn[*last].1 > 0));
                prop_assert!(numbers.iter().all(|number| messages[*number].local == batch.local));
                prop_assert!(numbers.iter().all(|number| messages[*number].peer == messages[*last].peer));
            }
            let mut at = 0;
            while at < plan.batches.len() {
                let call = plan.call(at);
                prop_assert!(call.count > 0);
                for batch in &plan.batches[at..at + call.count] {
                    prop_assert_eq!(batch.local, call.local);
                    prop_assert!(batch.count == 1 || call.segment == Some(batch.length));
                    prop_assert!(call.segment.is_none_or(|segment| batch.length <= segment));
                }
                at += call.count;
            }
        }
    }
}
