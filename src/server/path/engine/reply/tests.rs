//! Which replies leave when, by which socket, and what is counted.

use super::*;
use crate::fate::Unsent;
use crate::handler::Reply;
use crate::metrics::{Spent, WorkerMetrics};
use crate::net::{Datagram, Outcomes};
use crate::queue::ObjectPool;
use crate::server::path::common::Transport;
use crate::server::path::packet::PacketBody;
use std::io;

/// A link to two sockets. The first takes no datagram of one byte, and the second takes nothing.
/// Each call has the socket and the lengths of its messages.
#[derive(Default)]
struct HalfOpen {
    calls: Vec<(usize, Vec<usize>)>,
}

impl Link for HalfOpen {
    type Socket = usize;

    fn receive<'b>(&mut self, _: &usize, _: impl Iterator<Item = &'b mut [u8]>) -> io::Result<usize> {
        Ok(0)
    }

    fn datagrams(&self) -> &[Datagram] {
        &[]
    }

    fn left(&self) -> usize {
        0
    }

    fn discard(&mut self) {}

    fn send(&mut self, socket: &usize, messages: &[Message<'_>], _: Nanos) -> Outcomes {
        self.calls.push((*socket, messages.iter().map(|message| message.bytes.len()).collect()));
        let takes = |message: &Message<'_>| *socket == 0 && message.bytes.len() > 1;
        messages.iter().map(|message| if takes(message) { Ok(()) } else { Err(Unsent::Denied) }).collect()
    }

    fn probe(&mut self, _: &usize) -> Result<(), Unsent> {
        Ok(())
    }
}

fn pool() -> ObjectPool<PacketBody<()>> {
    ObjectPool::new(SEND_BATCH_MAX, |number| PacketBody::new(number, 64))
}

/// A packet whose reply, of a request to this address, has datagrams of these lengths.
fn packet<'s>(pool: &'s ObjectPool<PacketBody<()>>, address: u8, lengths: &[usize]) -> Packet<'s, ()> {
    let mut packet = pool.acquire().expect("there is one");
    let mut reply = Reply::new(&mut packet.reply);
    for length in lengths {
        reply.begin_datagram().expect("few datagrams");
        reply.put(&[0; 64][..*length]).expect("few bytes");
    }
    (packet.extents, packet.envelope.source.address) = (reply.extents, address);
    packet
}

// Does each reply leave by the socket of its address, in order, with all its datagrams? Is one
// counted as answered if the kernel has taken all of these? Is each of them unsent that it has not
// taken, and the time of those replies unanswered?
#[test]
fn replies_leave_by_address() {
    let (pool, metrics) = (pool(), WorkerMetrics::new(1));
    let mut recorder = metrics.recorder(0);
    let mut outbox = Outbox::new();
    let answers: [(u8, &[usize]); 5] = [(1, &[1]), (0, &[2, 3]), (1, &[4, 5]), (0, &[6, 1, 7]), (0, &[8])];
    for ((address, lengths), service_us) in answers.into_iter().zip([1, 10, 100, 1_000, 10_000]) {
        let sample = Sample { service: Nanos::from_micros(service_us), ..Sample::default() };
        outbox.put(packet(&pool, address, lengths), lengths.len(), Some((sample, Nanos::ZERO)));
    }
    [(0, [9, 1]), (1, [11, 12])]
        .iter()
        .for_each(|(address, two)| outbox.put(packet(&pool, *address, two), two.len(), None));
    recorder.received(7);
    assert_eq!(outbox.datagrams, 13);
    let (mut link, transport, mut home) = (HalfOpen::default(), Transport::new(1, 2), 0);
    outbox.flush(&mut link, &[0, 1], &mut recorder, transport.of(0), Nanos::ZERO, |_| home += 1);
    assert_eq!(link.calls, [(0, vec![2, 3, 6, 1, 7, 8, 9, 1]), (1, vec![1, 4, 5, 11, 12])]);
    assert_eq!((home, outbox.datagrams, outbox.is_empty()), (7, 0, true));
    let (_, ends) = metrics.ends();
    assert_eq!((ends[Fate::Answered as usize], ends[Fate::Unsent as usize]), (2, 3));
    assert_eq!(metrics.counts().counted.unsent[Unsent::Denied as usize], 7);
    assert_eq!(metrics.counts().spent(Spent::Unanswered), Nanos::from_micros(1_101), "the time of what was not sent");
}

// Is there room for as many datagrams as are sent at once, however many replies they are?
#[test]
fn room_is_counted_in_datagrams() {
    let pool = pool();
    let mut outbox = Outbox::new();
    for _ in 0..SEND_BATCH_MAX / 8 - 1 {
        outbox.put(packet(&pool, 0, &[1; 8]), 8, Some((Sample::default(), Nanos::ZERO)));
    }
    outbox.put(packet(&pool, 0, &[1; 5]), 5, None);
    assert_eq!([1, 2, 3, 4, 8].map(|count| outbox.has_room(count)), [true, true, true, false, false]);
}

const BRIEF: Nanos = Nanos::new(300);

/// A thread that has used this much CPU time, and waited so often.
fn used(cpu: Nanos, waits: i64) -> ThreadUse {
    ThreadUse { cpu, waits }
}

// Is a thread that works told from one that waits?
#[test]
fn work_is_told_from_waiting() {
    let before = ThreadUse::now();
    let worked = Nanos::from_millis(3);
    while clock::of_thread().minus(before.cpu) < worked {
        std::hint::spin_loop();
    }
    let after = ThreadUse::now();
    assert!(after.worked_since(&before).is_some_and(|cpu| cpu >= worked), "{before:?} {after:?}");
    std::thread::sleep(worked.into());
    assert_eq!(ThreadUse::now().worked_since(&after), None);
}

/// Notes a request that had its processor while it ran.
fn note(gathering: &mut Gathering, ran: Nanos, waited: bool, paused: bool) {
    gathering.on_first_run(ran, waited, paused, || used(ran, 0));
}

/// Requests until replies may wait again, after one that ran for `ran`.
fn one_by_one_after(ran: Nanos, waited: bool, paused: bool) -> u32 {
    let mut gathering = Gathering::default();
    note(&mut gathering, ran, waited, paused);
    let mut requests = 0;
    while !gathering.is_on() {
        assert!(!gathering.may_wait(Nanos::ZERO));
        note(&mut gathering, BRIEF, false, false);
        requests += 1;
    }
    requests
}

// Do replies wait while requests are brief, and how long not, after one that was not?
#[test]
fn replies_wait_for_brief_requests_only() {
    assert!(Gathering::default().may_wait(Nanos::ZERO) && !Gathering::default().may_wait(WAIT_MAX));
    assert_eq!(one_by_one_after(BRIEF, true, false), 0);
    assert_eq!(one_by_one_after(BRIEF, true, true), AFTER_PAUSE);
    assert_eq!(one_by_one_after(WAIT_MAX, true, false), AFTER_PAUSE);
    assert_eq!(one_by_one_after(STRETCH_LONG, true, false), AFTER_LONG);
    assert_eq!(one_by_one_after(STRETCH_LONG, true, true), AFTER_PAUSE, "its checkpoint came, only late");
    assert_eq!(one_by_one_after(STRETCH_LONG, false, false), AFTER_PAUSE, "it may have had checkpoints");
    let mut gathering = Gathering::default();
    note(&mut gathering, STRETCH_LONG, true, false);
    note(&mut gathering, BRIEF, true, true);
    assert_eq!(gathering.one_by_one, AFTER_LONG, "the longer memory counts");
}

// Does time count for which the kernel ran other threads, or in which the request waited for
// something? What the thread used after the last reading may have been this request's; what it used
// before was not.
#[test]
fn a_thread_without_its_processor_is_not_in_a_long_request() {
    for (cpu, waits, expected) in
        [(BRIEF, 0, 0), (WAIT_MAX, 0, AFTER_PAUSE), (STRETCH_LONG, 0, AFTER_LONG), (BRIEF, 1, AFTER_LONG)]
    {
        let mut gathering = Gathering::default();
        let (now, before) = (Nanos::from_secs(7), Nanos::from_secs(1));
        let after = used(before.plus(cpu), 3 + waits);
        gathering.on_wait(now, || used(before, 3));
        gathering.on_wait(now.plus(READ_EVERY).minus(BRIEF), || unreachable!("it was read a moment ago"));
        gathering.on_first_run(BRIEF, true, false, || unreachable!("a brief one needs no reading"));
        gathering.on_first_run(STRETCH_LONG.times(9), true, false, || after);
        assert_eq!(gathering.one_by_one, expected, "{cpu:?} {waits}");
        gathering.on_wait(now.plus(READ_EVERY), || after);
        assert_eq!(gathering.used_before, after);
    }
}

/// The share of requests for which replies could wait, and of those that were long meanwhile, when
/// one in `every` is long.
fn shares(every: u32) -> (f64, f64) {
    let (mut gathering, mut waited, mut met) = (Gathering::default(), 0_u32, 0_u32);
    let requests = 1_000_000;
    for number in 0..requests {
        let (waits, is_long) = (gathering.is_on(), number % every == every - 1);
        waited += u32::from(waits);
        met += u32::from(waits && is_long);
        note(&mut gathering, if is_long { STRETCH_LONG } else { BRIEF }, waits, false);
    }
    (f64::from(waited) / f64::from(requests), f64::from(met) / f64::from(requests))
}

// Do replies seldom meet a long request where these are common, and nearly always wait where the
// host interrupts now and then?
#[test]
fn memory_follows_how_often_requests_are_long() {
    for every in [10, 100, 1_000] {
        let (_, met) = shares(every);
        // A few more while the memory grows.
        assert!(met <= 1.2 / f64::from(AFTER_LONG_MAX), "one in {every}: {met}");
    }
    let (waited, _) = shares(30_000);
    assert!(waited > 0.97, "{waited}");
}
