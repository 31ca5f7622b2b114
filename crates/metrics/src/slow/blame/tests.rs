use super::super::host::Tick;
use super::*;
use crate::flight::number;

const US: fn(u64) -> Nanos = Nanos::from_micros;

fn slice(id: u64, kind: SliceKind, from: u64, to: u64) -> Slice {
    let about = About { id, class: (id % 8) as u8, came_at: US(1) };
    Slice { began: US(from), took: US(to - from), kind, about }
}

/// The blame for a request that arrived at 1,000 us, ended at 2,000 us and took 10 us. Returns
/// cause, worker, culprit and the culprit's time.
fn blamed(late: Delayed, slices: [&[Slice]; 2], host: &Host) -> Option<(Cause, usize, Option<u64>, u64)> {
    let culprit = blame(&late, |worker| slices[worker], host, 2)?;
    // Only the last slices of a long wait are examined; each took 100 us.
    let judged = late.delay().min(US(100 * WALKED as u64));
    let share = culprit.held.get() as f64 / judged.get() as f64;
    assert!(culprit.share == share.min(1.0) && !culprit.text().is_empty(), "{culprit:?}, {share}");
    Some((culprit.cause, culprit.worker, culprit.by.map(|by| by.id), culprit.held.get() / 1_000))
}

fn late() -> Delayed {
    let about = About { id: number(0, 9), class: 0, came_at: US(1_000) };
    Delayed { about, worker: 0, received_at: US(1_900), ended_at: US(2_000), service: US(10), ..Delayed::default() }
}

const BEFORE: Slice = Slice {
    began: Nanos::from_micros(1),
    took: Nanos::from_micros(1),
    kind: SliceKind::Short,
    about: About { id: 1, class: 0, came_at: Nanos::ZERO },
};

#[test]
fn the_longest_request_before_it_is_to_blame() {
    let host = Host::default();
    let long = slice(77, SliceKind::Unchecked, 500, 1_950);
    assert_eq!(blamed(late(), [&[BEFORE, long], &[]], &host), Some((Cause::NoCheckpoint, 0, Some(77), 950)));
    let kept = slice(77, SliceKind::Checked, 1_100, 1_950);
    assert_eq!(blamed(late(), [&[BEFORE, kept], &[]], &host), Some((Cause::Order, 0, Some(77), 850)));
    let turns = [BEFORE, slice(77, SliceKind::Unchecked, 1_000, 1_400), slice(78, SliceKind::Unchecked, 1_400, 1_500)];
    let turns = [&turns[..], &[slice(77, SliceKind::Unchecked, 1_500, 1_900)]].concat();
    assert_eq!(blamed(late(), [&turns, &[]], &host), Some((Cause::Order, 0, Some(77), 800)), "it came back");
    let child = slice(0, SliceKind::Child, 1_000, 1_900);
    assert_eq!(blamed(late(), [&[BEFORE, child], &[]], &host), Some((Cause::NoCheckpoint, 0, None, 900)));
    let now = slice(77, SliceKind::Running, 1_000, 2_000);
    assert_eq!(blamed(late(), [&[BEFORE, now], &[]], &host), Some((Cause::Running, 0, Some(77), 1_000)));
}

#[test]
fn many_requests_share_the_blame() {
    let many: Vec<_> =
        (0..9).map(|at| slice(50 + at, SliceKind::Unchecked, 1_000 + 100 * at, 1_100 + 100 * at)).collect();
    let many = [&[BEFORE], &many[..]].concat();
    let (cause, worker, _, held) = blamed(late(), [&many, &[]], &Host::default()).expect("known");
    assert_eq!((cause, worker, held), (Cause::NoFreeWorker, 0, 900));
    let short = [BEFORE, slice(40, SliceKind::Short, 1_000, 1_800)];
    assert_eq!(blamed(late(), [&short, &[]], &Host::default()), Some((Cause::NoFreeWorker, 0, None, 800)));
}

// Is a wait judged by its last part if it has too many slices?
#[test]
fn a_long_wait_is_judged_by_its_end() {
    let many = (0..5_000).map(|at| slice(50 + at, SliceKind::Unchecked, 1_000 + 100 * at, 1_100 + 100 * at));
    let late = Delayed { ended_at: US(501_000), ..late() };
    let many: Vec<_> = [BEFORE].into_iter().chain(many).collect();
    let (cause, worker, _, held) = blamed(late, [&many, &[]], &Host::default()).expect("known");
    assert_eq!((cause, worker, held), (Cause::NoFreeWorker, 0, 100 * WALKED as u64));
}

// If another worker served the request, is the worker blamed whose socket held it?
#[test]
fn the_worker_that_was_held_is_named() {
    let late = Delayed { about: About { id: number(1, 9), ..late().about }, ..late() };
    let slices: [&[Slice]; 2] = [&[BEFORE], &[BEFORE, slice(77, SliceKind::Unchecked, 900, 1_990)]];
    assert_eq!(blamed(late, slices, &Host::default()), Some((Cause::NoCheckpoint, 1, Some(77), 990)));
}

#[test]
fn what_is_no_request_is_to_blame_too() {
    let host = Host::default();
    assert_eq!(blamed(late(), [&[BEFORE], &[]], &host), Some((Cause::Asleep, 0, None, 990)));
    let flow = Delayed { set_aside: US(600), behind: 5, shard: Some(9), ..late() };
    let shard = |late| blame(&late, |_| &[BEFORE], &host, 2).expect("known").shard;
    assert_eq!([flow, Delayed { behind: PERMIT, ..flow }].map(shard), [Some(9), None]);
    assert_eq!(blamed(flow, [&[BEFORE], &[]], &host), Some((Cause::Flow, 0, Some(5), 600)));
    let set_aside = |us| blamed(Delayed { set_aside: US(us), ..flow }, [&[BEFORE], &[]], &host).expect("known").0;
    assert_eq!([495, 494].map(set_aside), [Cause::Flow, Cause::Asleep], "half of 990 us");
    let permit = Delayed { behind: PERMIT, ..flow };
    let long = slice(77, SliceKind::Unchecked, 900, 1_990);
    assert_eq!(blamed(permit, [&[BEFORE], &[BEFORE, long]], &host), Some((Cause::Permit, 1, Some(77), 600)));
    let lack = [1_100, 1_300, 1_900].map(|at| slice(0, SliceKind::NoPacket, at, at));
    let lack = [&[BEFORE], &lack[..]].concat();
    assert_eq!(blamed(late(), [&lack, &[]], &host), Some((Cause::Packets, 0, None, 900)));
    let before = slice(0, SliceKind::NoPacket, 900, 900);
    assert_eq!(blamed(late(), [&[BEFORE, before], &[]], &host), Some((Cause::Packets, 0, None, 1_000)));
    let again = slice(77, SliceKind::Unchecked, 1_100, 1_150);
    assert_eq!(blamed(late(), [&[BEFORE, before, again], &[]], &host), Some((Cause::Asleep, 0, None, 940)));
    let tick = |at, every, off_cpu| Tick {
        at: US(at),
        every: US(every),
        off_cpu: vec![US(off_cpu), US(0)],
        ..Tick::default()
    };
    let hog = Host { ticks: [tick(0, 2_500, 0), tick(2_500, 2_500, 2_000)].into() };
    assert_eq!(blamed(late(), [&[BEFORE], &[]], &hog), Some((Cause::RunQueue, 0, None, 800)));
    for (throttled, cause) in [(900, Cause::RunQueue), (1_000, Cause::Throttled)] {
        let used_up = Tick { throttled: US(throttled), ..hog.ticks[1].clone() };
        let host = Host { ticks: [tick(0, 2_500, 0), used_up].into() };
        assert_eq!(blamed(late(), [&[BEFORE], &[]], &host), Some((cause, 0, None, 800)));
    }
    let pause = Host { ticks: [tick(1_100, 500, 0), tick(80_000, 500, 0)].into() };
    assert_eq!(blamed(late(), [&[BEFORE], &[]], &pause), Some((Cause::HostPause, 0, None, 900)));
}

// Is the pool blamed only if the worker that received the request was free?
#[test]
fn a_worker_of_another_pool_is_to_blame() {
    let apart = |pools| Host { ticks: [Tick { pools, ..Tick::default() }].into() };
    let (two, one) = (apart(vec![0, 1]), apart(vec![0, 0]));
    let long = [BEFORE, slice(77, SliceKind::Running, 900, 1_990)];
    assert_eq!(blamed(late(), [&[BEFORE], &long], &two), Some((Cause::Pool, 1, Some(77), 990)));
    assert_eq!(blamed(late(), [&[BEFORE], &long], &one), Some((Cause::Asleep, 0, None, 990)));
    let busy = [BEFORE, slice(78, SliceKind::Unchecked, 900, 1_800)];
    assert_eq!(blamed(late(), [&busy, &long], &two), Some((Cause::NoCheckpoint, 0, Some(78), 800)));
}

// Is the share the explained part of the delay, which does not include the request's own
// service time?
#[test]
fn the_share_is_what_others_explain() {
    let own = slice(late().about.id, SliceKind::Unchecked, 1_000, 1_500);
    let late = Delayed { service: US(500), ..late() };
    for (until, share) in [(2_000, 1.0), (1_900, 0.8), (1_800, 0.6)] {
        let slices = [BEFORE, own, slice(77, SliceKind::Unchecked, 1_500, until)];
        let culprit = blame(&late, |_| &slices[..], &Host::default(), 1).expect("known");
        assert_eq!((culprit.by.map(|by| by.id), culprit.held, culprit.share), (Some(77), US(until - 1_500), share));
    }
}

// Is there no culprit if the ring no longer holds the time?
#[test]
fn what_is_forgotten_is_not_made_up() {
    let later = [slice(77, SliceKind::Unchecked, 1_500, 1_900), slice(78, SliceKind::Unchecked, 1_900, 1_950)];
    assert_eq!(blamed(late(), [&later, &later], &Host::default()), None);
}
