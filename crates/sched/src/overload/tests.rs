//! Are old requests shed exactly while there is a standing queue?

use super::*;
use crate::time::ThreadUse;

mod giving_up;
mod half_awake;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// Limits for clients that wait 200 ms, so that a queue stands after 100 ms, also for the first
/// time.
const BOUNDS: WaitBounds = WaitBounds {
    target: Nanos::from_millis(5),
    interval: Nanos::from_millis(100),
    bound: Nanos::from_millis(10),
    limit: Nanos::from_secs(1),
    patience: Nanos::from_millis(200),
};

/// What a thread has used that has had its CPU for this long, and has not waited.
fn worked(cpu: Nanos) -> ThreadUse {
    ThreadUse { cpu, waits: 0 }
}

/// Queues with room.
fn load(waiting: usize, workers: usize) -> QueueLoad {
    QueueLoad { waiting, workers, crowded: false }
}

/// A worker that always has a CPU.
fn present() -> Absence {
    Absence::new(worked)
}

fn times(pairs: &[(u64, u64)]) -> ServiceTimes {
    ServiceTimes::new(pairs.iter().map(|(us, count)| (Nanos::from_micros(*us), *count)))
}

fn queues(max_wait: MaxWait, times: &ServiceTimes, slice: Option<Nanos>) -> Option<WaitLimits> {
    WaitLimits::measured(max_wait, times, Nanos::ZERO, slice)
}

fn auto(pairs: &[(u64, u64)]) -> WaitLimits {
    queues(MaxWait::Auto, &times(pairs), None).expect("enough was measured")
}

#[test]
fn the_bounds_follow_what_is_measured() {
    // With equal service times, the unit is the service time. Clients wait for a second, and a
    // tenth of it is kept for service and reply.
    let WaitLimits { fresh, interrupted, .. } = auto(&[(10_000, 100)]);
    let patience = MS(1_000);
    assert_eq!(fresh, WaitBounds { target: MS(100), interval: MS(400), bound: MS(200), limit: MS(900), patience });
    let known = WaitBounds { target: MS(450), interval: MS(500), bound: MS(900), limit: MS(900), patience };
    assert_eq!(interrupted, known);
    // One request in a hundred is heavy, and takes 10,000 of 10,099 parts of the time.
    let mixed = auto(&[(10, 990), (10_000, 10)]).fresh;
    assert!(mixed.target > MS(90) && mixed.target < MS(100), "{mixed:?}");
    let least = auto(&[(5, 100)]).fresh;
    assert_eq!([least.target, least.interval, least.bound, least.limit], [5, 100, 10, 900].map(MS));
    let slow = auto(&[(2_000_000, 100)]).fresh;
    assert_eq!((slow.limit, slow.bound, slow.patience), (MS(8_000), MS(8_000), MS(10_000)), "five services");
    assert_eq!(queues(MaxWait::Auto, &times(&[(5, 19)]), None), None);
    assert_eq!(queues(MaxWait::Off, &times(&[]), None), Some(WaitLimits::NONE));
    let fixed = queues(MaxWait::For(MS(7)), &times(&[]), None).expect("a setting").fresh;
    let always = WaitBounds { target: MS(7), interval: Nanos::ZERO, bound: MS(7), limit: MS(7), patience: MS(7) };
    assert_eq!(fixed, always);
    let unmeasured = WaitLimits::unmeasured(MaxWait::Auto).fresh;
    assert_eq!((unmeasured.limit, unmeasured.patience), (MS(500), patience), "half for the unknown service");
    let beside = WaitLimits::measured(MaxWait::Auto, &times(&[(0, 100)]), MS(3), None).expect("measured").fresh;
    assert_eq!(beside.target, MS(30), "the way in and out counts, where the work is nothing");
}

// If other requests may go first after the first slice, do the limits for fresh requests follow the
// first slices?
#[test]
fn what_has_not_begun_waits_for_first_slices_only() {
    let times = times(&[(1_000, 980), (100_000, 20)]);
    let bounds = |max_wait, slice| queues(max_wait, &times, slice).expect("enough was measured");
    let sliced = bounds(MaxWait::Auto, Some(MS(5)));
    // The bound is 20 units, and a unit is (98 + 50) / (98 + 10) ms.
    assert!(sliced.fresh.bound > MS(27) && sliced.fresh.bound < MS(28), "{sliced:?}");
    assert_eq!((sliced.interrupted.limit, sliced.heavy), (MS(900), MS(100)));
    let whole = bounds(MaxWait::Auto, None);
    assert_eq!(whole.fresh.bound, MS(900), "20 of 67 ms, but no more than clients wait");
    assert_eq!(bounds(MaxWait::Auto, Some(Nanos::new(1))).interrupted.limit, whole.fresh.limit, "all take longer");
    let fixed = bounds(MaxWait::For(MS(7)), Some(MS(5)));
    assert_eq!((fixed.fresh, fixed.fresh.bound), (fixed.interrupted, MS(7)));
    assert_eq!(bounds(MaxWait::Off, Some(MS(5))), WaitLimits::NONE);
}

// Does each queue stand by itself? Does it stop standing after a rest of the worker, or after a
// long time without a job from the queue?
#[test]
fn a_queue_stands_by_itself_and_while_it_is_looked_at() {
    let mut queues = StandingQueues::new(2);
    let old = |queues: &mut StandingQueues, now| queues.on_old(0, MS(now), MS(50), MS(50), &present(), &BOUNDS);
    assert!(!old(&mut queues, 0) && !old(&mut queues, 99));
    queues.on_young(1);
    assert!(old(&mut queues, 100), "another queue is young");
    queues.on_young(0);
    assert!(!old(&mut queues, 150) && old(&mut queues, 250));
    queues.on_rest(MS(251));
    assert!(!old(&mut queues, 300), "it had nothing to do meanwhile");
    assert!(old(&mut queues, 400));
    assert!(!old(&mut queues, 501), "it has not looked for longer than an interval");
    // An old request of an empty queue is served while another queue of the worker stands.
    let mut queues = StandingQueues::new(2);
    queues.on_rest(MS(1));
    let sheds = [(0, 10), (0, 60), (0, 110), (1, 111), (0, 112)]
        .map(|(queue, now)| queues.on_old(queue, MS(now), MS(50), MS(50), &present(), &BOUNDS));
    assert_eq!(sheds, [false, false, true, false, true]);
}

// If a worker visits a queue less than once per interval, does the age of the jobs still show that
// it stands?
#[test]
fn a_queue_stands_while_it_is_seldom_looked_at() {
    let mut queues = StandingQueues::new(1);
    assert!(!queues.on_old(0, MS(1_000), MS(60), MS(60), &present(), &BOUNDS));
    assert!(
        !queues.on_old(0, MS(1_128), MS(120), MS(120), &present(), &BOUNDS),
        "it came after the last look: others may have emptied it"
    );
    assert!(queues.on_old(0, MS(1_256), MS(128), MS(128), &present(), &BOUNDS), "it waited already at the last look");
    queues.on_young(0);
    assert!(!queues.on_old(0, MS(1_384), MS(200), MS(200), &present(), &BOUNDS));
    assert!(queues.on_old(0, MS(1_512), MS(200), MS(200), &present(), &BOUNDS));
    queues.on_rest(MS(1_600));
    assert!(!queues.on_old(0, MS(1_640), MS(200), MS(200), &present(), &BOUNDS));
}

// Do workers detect a standing socket together, if each visits it less than once per interval? Does
// one worker's young request reset it for all, but one worker's rest only for itself?
#[test]
fn workers_of_one_socket_know_what_others_took() {
    let one = StandingQueues::new(1);
    let mut workers = vec![one; 4];
    let sheds = |now: u64, workers: &mut Vec<StandingQueues>| {
        workers[(now / 40) as usize % 4].on_old(0, MS(now), MS(50), MS(50), &present(), &BOUNDS)
    };
    let standing: Vec<bool> = (1..6).map(|turn| sheds(40 * turn, &mut workers)).collect();
    assert_eq!(standing, [false, false, false, true, true], "each comes once in 160 ms");
    workers[1].on_rest(MS(201));
    assert!(sheds(240, &mut workers), "another one had nothing to do");
    workers[0].on_young(0);
    assert!(!sheds(280, &mut workers) && !sheds(360, &mut workers) && sheds(400, &mut workers));
}

// Does the queue count as full only under two conditions? The predicted wait, own wait included,
// was above half of the bound for an interval, and it is above the bound now.
#[test]
fn a_queue_is_full_by_the_wait_to_expect() {
    let bounds = auto(&[(10_000, 100)]).fresh;
    let mut heavy = HeavyQueue::default();
    let full = |heavy: &mut HeavyQueue, now, waiting, waited| {
        heavy.is_full(MS(now), load(waiting, 100), MS(waited), bounds.bound, &present(), &bounds)
    };
    assert!(!full(&mut heavy, 0, 80, 0), "nothing was measured");
    heavy.on_end(MS(0), MS(100), 40);
    assert!(!full(&mut heavy, 0, 80, 0) && !full(&mut heavy, 399, 80, 0), "it has not been for long");
    assert!(full(&mut heavy, 400, 80, 0) && !full(&mut heavy, 401, 79, 0), "2.5 ms each, 200 ms at most");
    assert!(!full(&mut heavy, 402, 39, 100) && full(&mut heavy, 403, 40, 100), "it has waited before");
    assert!(!full(&mut heavy, 404, 0, 0) && full(&mut heavy, 803, 80, 0), "it was short, and not for long");
    assert!(!full(&mut heavy, 900, 0, 0) && !full(&mut heavy, 1_300, 0, 0) && !full(&mut heavy, 1_301, 80, 0));
    (0..60).for_each(|_| heavy.on_end(MS(1_301), MS(200), 40));
    assert!(!full(&mut heavy, 1_701, 39, 0) && full(&mut heavy, 1_701, 41, 0), "5 ms each by now");
    heavy.on_rest(MS(1_701));
    assert!(!full(&mut heavy, 1_702, 41, 0), "the worker had nothing to do meanwhile");
}

// May a request of a limited source wait half as long as others, and one of a validated source half
// as long again? The wait is 2.5 ms for each request in front, and 200 ms at most.
#[test]
fn requests_of_limited_sources_are_refused_first() {
    let bounds = WaitBounds { target: MS(100), ..WaitBounds::always(MS(200), MS(400)) };
    let limits = WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE };
    let mut shedding = Shedding::new(1, 1, 1_024, false);
    shedding.on_end(&Stay { in_line: 41, ..Stay::new(MS(0)) }, MS(100));
    let mut longest_queue = |limited, validated| {
        (0..200)
            .take_while(|waiting| {
                let mut stay = Stay { validated, ..Stay::new(MS(100)) };
                shedding.on_put(&mut stay, 0, MS(100), || (*waiting, limited), true, &limits)
            })
            .count()
    };
    assert_eq!(
        [(true, true), (true, false), (false, false), (false, true)].map(|(l, v)| longest_queue(l, v)),
        [40, 40, 80, 120]
    );
}

// While a queue stands, are requests of unknown sources shed at the bound, and those of validated
// sources only at the limit?
#[test]
fn unknown_sources_are_shed_first() {
    let bounds = WaitBounds { bound: MS(20), limit: MS(900), ..BOUNDS };
    let limits = WaitLimits { fresh: bounds, ..WaitLimits::NONE };
    let mut shedding = Shedding::new(1, 1, 1_024, false);
    let mut begins = |validated, wait, now| {
        let mut stay = Stay { validated, ..Stay::new(MS(now - wait)) };
        stay.start_by = shedding.start_by(&stay, 0, &limits);
        shedding.on_begin(&stay, 0, 0, MS(now), || (0, false), &limits)
    };
    (1_000..1_200).for_each(|now| assert_eq!(begins(now % 2 == 0, 15, now), None));
    for (validated, served_to) in [(false, 19), (true, 899)] {
        assert_eq!(begins(validated, served_to, 1_201), None, "{validated}");
        assert_eq!(begins(validated, served_to + 1, 1_202), Some(Cause::Waited), "{validated}");
    }
}

// If all requests of one class wait too long, is this class refused, while other classes from the
// same socket are served? Is it admitted again once one of its requests did not wait, or the worker
// had nothing to do?
#[test]
fn a_class_stands_by_itself() {
    let bounds = WaitBounds { target: MS(100), bound: MS(200), limit: MS(900), ..BOUNDS };
    let limits = WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE };
    for classified in [true, false] {
        let mut shedding = Shedding::new(1, 1, 1_024, classified);
        let mut begins = |class, wait, now| {
            let mut stay = Stay::new(MS(now - wait));
            stay.start_by = shedding.start_by(&stay, class, &limits);
            let cause = shedding.on_begin(&stay, class, 0, MS(now), || (0, false), &limits);
            (cause, shedding.continuations_stand())
        };
        let refused = if classified { (Some(Cause::Refused), true) } else { (None, false) };
        assert_eq!((begins(0, 0, 999), begins(1, 250, 1_000)), ((None, false), (None, false)));
        assert_eq!((begins(0, 0, 1_099), begins(1, 250, 1_100)), ((None, false), refused));
        assert_eq!(begins(1, 150, 1_101), (None, classified), "below the bound");
        assert_eq!((begins(0, 0, 1_102), begins(1, 250, 1_103)), ((None, classified), refused));
        assert_eq!((begins(1, 0, 1_104), begins(1, 250, 1_105)), ((None, false), (None, false)));
        assert_eq!((begins(0, 0, 1_204), begins(1, 250, 1_205)), ((None, false), refused));
        shedding.on_rest(MS(1_206));
        assert!(!shedding.continuations_stand());
    }
}

// Does the predicted wait in the queues leave out the wait in the socket? Each request waited for
// 500 ms in the socket, then 10 ms behind 10 others in the queue.
#[test]
fn the_wait_in_the_socket_says_nothing_of_the_queues() {
    let limits = auto(&[(1_000, 100)]);
    let mut shedding = Shedding::new(1, 1, 1_024, false);
    let may_wait = (0..2_000).step_by(10).all(|ms| {
        let mut stay = Stay::new(MS(ms));
        let may_wait = shedding.on_put(&mut stay, 0, MS(500 + ms), || (10, false), true, &limits);
        shedding.on_end(&stay, MS(510 + ms));
        may_wait
    });
    assert!(may_wait, "500 ms and ten times 1 ms, where 900 may pass");
}

// Is a request assumed heavy after 64 in a row, and not after a light one? Is one in 16 tried
// anyway?
#[test]
fn many_heavy_ones_in_a_row_make_the_next_certain() {
    let mut heavy = HeavyQueue::default();
    for (in_a_row, is_certain) in [(63, false), (64, true), (0, false)] {
        heavy.in_a_row = in_a_row;
        let certain = (0..16).filter(|_| heavy.is_certain()).count();
        assert_eq!(certain, if is_certain { 15 } else { 0 }, "{in_a_row}");
    }
}

// If the queues are full, is a request refused at once that would wait too long in them? Does
// another request run on, without changing the predicted wait? The wait is 2.5 ms for each request
// in front, and 200 ms at most.
#[test]
fn what_finds_no_room_goes_on_if_it_could_be_in_time() {
    let bounds = WaitBounds { target: MS(100), bound: MS(200), limit: MS(200), ..BOUNDS };
    let limits = WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE };
    let mut shedding = Shedding::new(1, 1, 82, false);
    (0..60).for_each(|_| shedding.on_end(&Stay { in_line: 41, ..Stay::new(MS(0)) }, MS(100)));
    let mut goes_on = |waiting, room| {
        let mut stay = Stay::new(MS(100));
        let goes_on = shedding.on_put(&mut stay, 0, MS(100), || (waiting, false), room, &limits);
        (0..60).for_each(|_| shedding.on_end(&stay, MS(100)));
        goes_on
    };
    assert_eq!(
        [(79, false), (81, false), (81, true)].map(|(waiting, room)| goes_on(waiting, room)),
        [true, false, true]
    );
    // None of the requests that are assumed heavy begins.
    let mut shedding = Shedding::new(1, 1, 82, false);
    (0..64).for_each(|_| assert!(shedding.on_put(&mut Stay::new(MS(100)), 0, MS(100), || (0, false), true, &limits)));
    (0..60).for_each(|_| shedding.on_end(&Stay { in_line: 41, ..Stay::new(MS(0)) }, MS(100)));
    let mut begins = |waiting| {
        let stay = Stay { start_by: Nanos::MAX, ..Stay::new(MS(100)) };
        shedding.on_begin(&stay, 0, 0, MS(100), || (waiting, false), &limits).is_none()
    };
    assert_eq!([79, 80].map(&mut begins), [true, false]);
}

// If no request leaves a queue, does the queue count as full after a time, but never if it is
// empty? A worker sees only one end in `workers`.
#[test]
fn a_queue_that_does_not_move_is_full() {
    let bounds = WaitBounds { interval: Nanos::ZERO, ..auto(&[(10_000, 100)]).fresh };
    let mut heavy = HeavyQueue::default();
    heavy.on_end(MS(0), MS(1), 1);
    let mut full =
        |now, waiting| heavy.is_full(MS(now), load(waiting, 5), Nanos::ZERO, bounds.bound, &present(), &bounds);
    assert!(!full(199, 20) && full(200, 20), "200 ms by 5 workers and 4 times their share: 10 ms each");
    assert!(!full(1_000, 0) && !full(1_199, 20) && full(1_200, 20));
}

// Is begun work aborted once its client has left? With measured limits only if the queues stand,
// with a fixed limit always?
#[test]
fn begun_work_is_given_up_after_the_patience() {
    let bounds = auto(&[(10_000, 100)]).interrupted;
    let mut heavy = HeavyQueue::default();
    assert!(!heavy.gives_up(MS(10_000), &bounds), "it does not stand");
    heavy.on_end(MS(0), MS(50), 1);
    let full = [0, 500].map(|now| heavy.is_full(MS(now), load(20, 4), Nanos::ZERO, bounds.bound, &present(), &bounds));
    assert!(full[1]);
    assert!(!heavy.gives_up(MS(999), &bounds) && heavy.gives_up(MS(1_000), &bounds));
    heavy.on_rest(MS(501));
    assert!(!heavy.gives_up(MS(1_000), &bounds));
    let fixed = WaitBounds::always(MS(7), MS(7));
    assert!(!heavy.gives_up(MS(6), &fixed) && heavy.gives_up(MS(7), &fixed));
    assert!(!heavy.gives_up(Nanos::MAX.minus(MS(1)), &WaitBounds::NONE));
}

// After a pause or a burst, the requests of a queue are old. Are they shed only if the queue does
// not shrink? Does a queue that recently stood need only the interval to stand again?
#[test]
fn a_queue_that_shrinks_does_not_stand() {
    let bounds = WaitBounds { patience: MS(1_000), ..BOUNDS };
    let sheds = |waits: &dyn Fn(u64) -> u64, queues: &mut StandingQueues| -> Vec<u64> {
        let old = |now: &u64| queues.on_old(0, MS(*now), MS(waits(*now)), MS(waits(*now)), &present(), &bounds);
        (1..3_000).step_by(10).filter(old).collect()
    };
    let mut queues = StandingQueues::new(1);
    assert_eq!(sheds(&|now| 900 - now / 5, &mut queues), [0; 0], "five sixths of what is done come in");
    assert_eq!(sheds(&|_| 900, &mut StandingQueues::new(1))[0], 501, "as much comes as is done");
    let mut queues = StandingQueues::new(1);
    assert_eq!(sheds(&|now| 100 + now / 5, &mut queues)[0], 501, "more comes");
    queues.on_young(0);
    let again = (3_001..).step_by(10).find(|now| queues.on_old(0, MS(*now), MS(50), MS(50), &present(), &bounds));
    assert_eq!(again, Some(3_101), "it stood of late");
    let sheds = |wait| StandingQueues::new(1).on_old(0, MS(1), MS(wait), MS(wait), &present(), &bounds);
    assert!(!sheds(999) && sheds(1_000), "no client waits for so long, whether the queue stands or not");
}

#[test]
fn what_cannot_end_in_time_must_not_begin() {
    let latest = |deadline, expected, served| latest_start(MS(1_000), deadline, expected, served);
    assert_eq!(latest(MS(300), MS(100), MS(0)), MS(900));
    assert_eq!(latest(MS(300), MS(100), MS(40)), MS(940), "a part of it is done");
    assert_eq!(latest(MS(300), MS(100), MS(400)), MS(1_000), "it took longer already");
    assert_eq!(latest(MS(300), MS(5_000), MS(0)), MS(850), "half of the deadline is for waiting");
    assert_eq!(latest_start(Nanos::MAX, Nanos::MAX, MS(5), MS(0)), Nanos::MAX);
    assert_eq!(expected_service(&times(&[(10, 90), (700, 10)])), Some(Nanos::from_micros(10)));
    assert_eq!(expected_service(&times(&[(10, 89), (700, 11)])), Some(Nanos::from_micros(700)));
    assert_eq!(expected_service(&times(&[(10, 19)])), None);
}
