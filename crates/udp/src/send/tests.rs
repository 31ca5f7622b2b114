use super::*;
use crate::{Group, Io};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// A kernel that gives scripted answers, and after the last one takes everything.
#[derive(Default)]
struct Scripted {
    answers: VecDeque<Result<usize, Errno>>,
    /// The messages taken, in order. `calls` has the number of batches of each call.
    taken: Vec<usize>,
    calls: Vec<usize>,
    waits: Vec<Nanos>,
    /// For each wait, whether the buffer had drained at its end; true after the last entry.
    drained: VecDeque<bool>,
}

impl Backend for Scripted {
    fn send(&mut self, _: &Socket, _: &[Message<'_>], plan: &GsoPlan, call: Call) -> Result<usize, Errno> {
        let count = self.answers.pop_front().unwrap_or(Ok(call.count))?.min(call.count);
        self.calls.push(count);
        plan.batches[call.first..][..count].iter().for_each(|batch| self.taken.extend(plan.messages(batch)));
        Ok(count)
    }

    fn probe(&mut self, _: &Socket) -> Result<(), Errno> {
        Ok(())
    }

    fn wait(&mut self, _: &Socket, patience: Nanos) -> bool {
        self.waits.push(patience);
        self.drained.pop_front().unwrap_or(true)
    }
}

/// Sends one message to each of `peers` while the kernel gives `answers`.
fn send(peers: &[u8], answers: &[Result<usize, Errno>]) -> (Sender<Scripted>, Vec<Result<(), Unsent>>) {
    let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).expect("a free backend");
    let message =
        |peer: &u8| Message { bytes: b"reply", peer: (Ipv4Addr::new(127, 0, 0, *peer), 9).into(), local: None, ecn: 0 };
    let messages: Vec<_> = peers.iter().map(message).collect();
    let backend = Scripted { answers: answers.iter().copied().collect(), ..Scripted::default() };
    let mut sender = Sender::with(backend);
    let outcomes = sender.send(&group.sockets[0], &messages, NOW).to_vec();
    (sender, outcomes)
}

const SENT: Result<(), Unsent> = Ok(());
const NOW: Nanos = Nanos::from_secs(7);

// Does sending continue after each kind of failure? A stale error loses no message, and a lasting
// error only its own message. With a full buffer, the sender waits once; an interrupted call is
// repeated. A rejected GSO batch is sent message by message. If the device cannot segment, no
// further GSO batch is made.
#[test]
fn a_batch_goes_on_after_a_failure() {
    use Errno::{EACCES, EAGAIN, ECONNREFUSED, EHOSTUNREACH, EINTR, EINVAL, EIO, EMSGSIZE};
    use Errno::{ENETDOWN, ENETUNREACH, ENOBUFS, EPERM};
    let lost = |reason| [SENT, Err(reason), SENT, SENT];
    let taken = |answers: &[Result<usize, Errno>], peers: &[u8], outcomes: &[Result<(), Unsent>], order: &[usize]| {
        let (sender, found) = send(peers, answers);
        assert_eq!((&found[..], &sender.backend.taken[..]), (outcomes, order), "{answers:?}");
        sender
    };
    for (errno, reason) in [
        (ENOBUFS, Unsent::QueueFull),
        (EPERM, Unsent::Denied),
        (EACCES, Unsent::Denied),
        (ENETDOWN, Unsent::Unreachable),
        (EINVAL, Unsent::Other),
    ] {
        let sender = taken(&[Ok(1), Err(errno)], &[1, 2, 3, 4], &lost(reason), &[0, 2, 3]);
        assert_eq!(sender.backend.calls, [1, 2], "{errno}");
    }
    for errno in [ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EMSGSIZE, EINTR] {
        taken(&[Ok(1), Err(errno)], &[1, 2, 3], &[SENT; 3], &[0, 1, 2]);
    }
    let (refused, too_long, full) = (Err(ECONNREFUSED), Err(EMSGSIZE), Err(EAGAIN));
    let answers = [Ok(1), refused, refused, refused, Ok(1)];
    taken(&answers, &[1, 2, 3], &[SENT, Err(Unsent::Unreachable), SENT], &[0, 2]);
    taken(&[too_long, too_long], &[1, 2], &[Err(Unsent::TooLong), SENT], &[1]);
    let waited = taken(&[Ok(1), full, Ok(2)], &[1, 2, 3], &[SENT; 3], &[0, 1, 2]);
    let in_vain = [SENT, Err(Unsent::BufferFull), Err(Unsent::BufferFull)];
    let gave_up = taken(&[Ok(1), full, full, full], &[1, 2, 3], &in_vain, &[0]);
    assert_eq!([waited, gave_up].map(|sender| sender.backend.waits), [[PATIENCE], [PATIENCE]]);
    // A GSO batch of three is rejected, also at the retry; then the second of its messages fails
    // alone.
    let answers = [too_long, too_long, Ok(1), Err(EPERM)];
    assert!(taken(&answers, &[1, 1, 2, 1], &lost(Unsent::Denied), &[0, 3, 2]).gso.allows(NOW));
    assert!(!taken(&[Err(EIO)], &[1, 1, 1], &[SENT; 3], &[0, 1, 2]).gso.allows(NOW));
}

// Is GSO tried again once a minute after the device failed, and used again once it works?
#[test]
fn gso_is_tried_again_after_a_minute() {
    let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).expect("a free backend");
    let mut sender = Sender::with(Scripted::default());
    let message = Message { bytes: b"reply", peer: (Ipv4Addr::LOCALHOST, 9).into(), local: None, ecn: 0 };
    let mut batches = |now: Nanos, answers: &[Result<usize, Errno>]| {
        sender.backend.answers = answers.iter().copied().collect();
        assert_eq!(sender.send(&group.sockets[0], &[message; 3], now)[..], [SENT; 3]);
        (std::mem::take(&mut sender.backend.calls), group.without_gso())
    };
    let (one, single) = (vec![1], vec![3]);
    assert_eq!(batches(NOW, &[]), (one.clone(), 0));
    let mut failed_at = NOW;
    for _ in 0..3 {
        assert_eq!(batches(failed_at, &[Err(Errno::EIO)]), (single.clone(), 1));
        let again_at = failed_at.plus(Breaker::AGAIN_AFTER);
        // Before the minute is over there is no GSO batch, although the kernel would take one.
        assert_eq!(batches(again_at.minus(Nanos::new(1)), &[]), (single.clone(), 1));
        failed_at = again_at;
    }
    assert_eq!(batches(failed_at, &[]), (one.clone(), 0));
    assert_eq!(batches(failed_at.plus(Nanos::new(1)), &[]), (one, 0));
}

// After a wait that timed out, does the sender wait again only once the buffer has drained?
#[test]
fn a_buffer_that_does_not_drain_is_not_waited_for_again() {
    let group = Group::open(&[(Ipv4Addr::LOCALHOST, 0).into()], 1, Io::Batches).expect("a free backend");
    let mut sender = Sender::with(Scripted::default());
    let message = Message { bytes: b"reply", peer: (Ipv4Addr::LOCALHOST, 9).into(), local: None, ecn: 0 };
    let full = [Err(Errno::EAGAIN), Err(Errno::EAGAIN)];
    let mut send = |answers: &[Result<usize, Errno>], drained: &[bool]| {
        sender.backend.answers = answers.iter().copied().collect();
        sender.backend.drained = drained.iter().copied().collect();
        let outcome = sender.send(&group.sockets[0], &[message], NOW)[0];
        (outcome, std::mem::take(&mut sender.backend.waits))
    };
    let lost = Err(Unsent::BufferFull);
    assert_eq!(send(&full, &[false]), (lost, vec![PATIENCE]));
    for _ in 0..3 {
        assert_eq!(send(&full, &[false]), (lost, vec![Nanos::ZERO]), "one look, and no wait");
    }
    assert_eq!(send(&[Ok(1)], &[false]), (SENT, vec![Nanos::ZERO]), "room for one is not a drained buffer");
    assert_eq!(send(&full, &[false]), (lost, vec![Nanos::ZERO]));
    assert_eq!(send(&full, &[true, true]), (lost, vec![Nanos::ZERO, PATIENCE]));
    assert_eq!(send(&[Ok(1)], &[]), (SENT, vec![]));
}

use proptest::prelude::*;
use std::net::Ipv6Addr;

const BYTES: [u8; 2048] = [0; 2048];

fn message(peer: u8, length: usize, local: Option<u8>) -> Message<'static> {
    let address = |last: u8| match peer % 2 {
        0 => IpAddr::from(Ipv4Addr::new(127, 0, 0, last)),
        _ => Ipv6Addr::new(1, 2, 3, 4, 5, 6, 7, last.into()).into(),
    };
    Message { bytes: &BYTES[..length], peer: (address(peer), 9).into(), local: local.map(address), ecn: 0 }
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

// Do messages to one peer go together, even if messages to others are between them? Does a GSO
// batch end with a shorter message, and before a longer one? Is an empty message sent alone? Does a
// batch stay within the limits of a datagram and of the kernel?
#[test]
fn messages_to_one_peer_go_together() {
    for (messages, expected) in [
        (&[(1, 9), (2, 9), (1, 9), (3, 9), (2, 9), (1, 9)][..], &[&[0, 2, 5][..], &[1, 4], &[3]][..]),
        (&[(1, 9), (1, 9), (1, 5), (1, 9), (1, 10), (1, 5)], &[&[0, 1, 2], &[3], &[4, 5]]),
        (&[(1, 0), (1, 0), (1, 9), (1, 0)], &[&[0], &[1], &[2], &[3]]),
    ] {
        assert_eq!(batches(messages), expected, "{messages:?}");
    }
    let lengths = |length| batches(&[(1, length); SEND_BATCH_MAX]).iter().map(Vec::len).collect::<Vec<_>>();
    assert_eq!(lengths(2048), [31, 31, 31, 31, 4]);
    assert_eq!(lengths(9), [GSO_SEGMENTS_MAX; SEND_BATCH_MAX / GSO_SEGMENTS_MAX]);
}

#[test]
fn a_run_cuts_at_one_length_and_comes_from_one_address() {
    let lengths = [(1, 9), (1, 9), (2, 5), (3, 9), (3, 9), (4, 8), (4, 8), (5, 10), (6, 9), (6, 9)];
    let mut messages: Vec<_> = lengths.iter().map(|(peer, length)| message(*peer, *length, Some(1))).collect();
    messages.push(message(7, 9, Some(2)));
    messages.push(Message { ecn: 2, ..message(7, 9, Some(2)) });
    let plan = segmented(&messages);
    let mut runs = Vec::new();
    let mut at = 0;
    while at < plan.batches.len() {
        let call = plan.call(at);
        runs.push((call.count, call.segment));
        at += call.count;
    }
    // The segment length 9 of the next GSO batch would cut the message of 10. The last but one has
    // a source address of the other family, and the last one has ECN bits.
    let expected = [(1, Some(9)), (1, None), (1, Some(9)), (1, Some(8)), (1, None), (1, Some(9)), (1, None), (1, None)];
    assert_eq!(runs, expected);
}

proptest! {
    // Is every message sent once, in its peer's order? Does every GSO batch segment exactly where
    // its messages were joined?
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
                prop_assert!(batch.places.len() == 1 || call.segment == Some(batch.length));
                prop_assert!(call.segment.is_none_or(|segment| batch.length <= segment));
            }
            at += call.count;
        }
    }
}
