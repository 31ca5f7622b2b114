//! Do workers look into sockets before queues, as often as the policy says?

use super::*;

// Does a worker receive from the next socket before it takes from a queue? Does it so only now and
// then, and not if received requests would be shed?
#[test]
fn sockets_are_looked_into_before_queues_that_hold_something() {
    let us = Nanos::from_micros;
    let in_order = {
        let ladders = Ladders::blind([5, 20].map(Nanos::from_micros).into_iter().collect());
        Decision { in_order: true, ..Decision::of(ladders, "") }.make(&tuning(5)).policy
    };
    for policy in [&policies()[1], &in_order] {
        let waiting = |half_full| Seen { busy: false, jobs: [9; 3], half_full };
        let step = |local: &mut Local, at, view: &Seen| {
            policy.search(local, NOW.plus(us(at)), view).next(local, NOW.plus(us(at)), view)
        };
        let [mut first, mut second] = [0, 4].map(|worker| Local::new(worker, &policy.topology));
        let view = waiting(false);
        assert_eq!(step(&mut first, 0, &view), Some(Step::ReceiveNext));
        assert_eq!(step(&mut second, 1, &view), Some(Step::ReceiveNext), "another worker");
        assert_eq!(step(&mut first, 9, &view), Some(Step::Queue(0)), "it has looked 9 us ago");
        let mut walk = policy.search(&mut first, NOW, &view);
        let steps = [10, 30].map(|at| walk.next(&mut first, NOW.plus(us(at)), &view));
        assert_eq!(steps, [Some(Step::ReceiveNext), Some(Step::Queue(0))], "one look in a search");
        assert_eq!(step(&mut second, 99, &waiting(true)), Some(Step::Queue(0)), "there is no room");
    }
    let single = tuning(1).policy("global");
    let mut local = Local::new(0, &single.topology);
    let step = single.search(&mut local, NOW, &ONE_EACH).next(&mut local, NOW, &ONE_EACH);
    assert_eq!(step, Some(Step::Queue(0)), "one socket has an order");
}

// In a burst, does a worker keep the requests that it receives until its deque is empty? Does it
// receive from the next socket meanwhile? Worker 5 has a deque with jobs.
#[test]
fn in_a_burst_each_worker_keeps_what_it_receives() {
    let policy = rows::ordered(&tuning(7));
    let place = |worker, queued| {
        let view = Seen { jobs: [queued, 0, 0], ..FIXED };
        policy.place_fresh(&Local::new(worker, &policy.topology), None, &view)
    };
    assert_eq!([place(4, 63), place(4, 64), place(5, 0)], [Place::Queue(0), Place::Own, Place::Own]);
    let first = |worker| search(&policy, worker)[0];
    assert_eq!([first(5), first(4)], [Step::ReceiveNext, Step::Queue(0)]);
}

// Under `global`, does a worker first receive from the socket that woke it, then from all in turn?
#[test]
fn the_socket_that_wakes_a_worker_comes_first() {
    let policy = tuning(3).policy("global");
    let mut local = Local::new(0, &policy.topology);
    let mut sockets = |noticed: &[WorkerId]| {
        let nothing = Seen { busy: false, jobs: [0; 3], half_full: false };
        local.noticed = Noticed::of(noticed.iter().copied());
        let mut walk = policy.search(&mut local, NOW, &nothing);
        let steps = std::iter::from_fn(|| walk.next(&mut local, NOW, &nothing)).take(9);
        steps.filter(|step| matches!(step, Step::Receive(_))).collect::<Vec<_>>()
    };
    assert_eq!(sockets(&[]), [0, 1, 2].map(Step::Receive));
    assert_eq!(sockets(&[2]), [2, 0, 1, 2].map(Step::Receive));
}

/// One job in each queue.
const ONE_EACH: Seen = Seen { busy: false, jobs: [1; 3], half_full: false };

/// The steps before the first queue, in a search that finds nothing; `seen` is the result of its
/// look.
fn before_the_queue(policy: &Policy, local: &mut Local, seen: &[WorkerId]) -> Vec<Step> {
    let mut walk = policy.search(local, NOW, &ONE_EACH);
    let mut steps = Vec::new();
    while let Some(step) = walk.next(local, NOW, &ONE_EACH).filter(|step| !matches!(step, Step::Queue(_))) {
        match step {
            Step::Look => local.noticed = Noticed::of(seen.iter().copied()),
            Step::Steal(_) => continue,
            _ => {}
        }
        steps.push(step);
    }
    steps
}

// Does a worker look before it resumes a heavy request, and then receive from one socket that the
// look names? Do sockets that its job noticed come first?
#[test]
fn a_look_comes_before_heavy_requests() {
    use Step::{Look, Own, Receive};
    let policy = tuning(5).policy("levels");
    let mut local = Local::new(0, &policy.topology);
    let mut steps = |seen: &[WorkerId]| before_the_queue(&policy, &mut local, seen);
    assert_eq!(steps(&[]), [Own, Look]);
    assert_eq!(steps(&[3]), [Own, Look, Receive(3)]);
    assert_eq!(steps(&[4, 1]), [Own, Look, Receive(4)], "another worker had it, and has the other soon");
    assert_eq!(steps(&[]), [Own, Look], "what was named once is not tried again");
    local.noticed = Noticed::of([2, 2, 4]);
    assert_eq!(before_the_queue(&policy, &mut local, &[1]), [Own, Receive(2), Look, Receive(1)]);
    // If a step finds something, the other named sockets remain for the next search.
    local.noticed = Noticed::of([2, 4]);
    let mut walk = policy.search(&mut local, NOW, &ONE_EACH);
    assert_eq!([(); 2].map(|()| walk.next(&mut local, NOW, &ONE_EACH)), [Some(Own), Some(Receive(2))]);
    assert_eq!(before_the_queue(&policy, &mut local, &[]), [Own, Receive(4), Look]);
}

// While capacity is scarce, does a free worker serve its own socket, then the queues? Does it look
// now and then, and after it yielded? Do running jobs look as rarely, and is no worker asked to
// yield? Is it the same for a worker whose job found no room, until it finds nothing to do?
#[test]
fn while_capacity_is_scarce_workers_look_rarely() {
    use Step::{Look, Own, Queue, Receive, Steal};
    let times = estimate::ServiceTimes::new([(Nanos::from_micros(5), 95), (Nanos::from_micros(50), 5)]);
    let measured = Measured::new(times, Nanos::ZERO, 5.0);
    let policy = Tuning { measured: Some(measured), look_cost: Nanos::from_micros(1), ..tuning(5) }.policy("levels");
    let from = policy.patience().expect("levels").scarce_from;
    let us = |us| NOW.plus(Nanos::from_micros(us));
    let [enough, scarce] = [6, 5].map(|less| Seen { busy: true, jobs: [from - less, 0, 0], half_full: false });
    let mut local = Local::new(2, &policy.topology);
    let mut steps = |at, view: &Seen, called: bool| {
        if called {
            local.looked_at = Nanos::ZERO;
        }
        let mut walk = policy.search(&mut local, us(at), view);
        let steps = std::iter::from_fn(|| walk.next(&mut local, us(at), view)).filter(|step| !matches!(step, Steal(_)));
        steps.take(4).collect::<Vec<_>>()
    };
    let looks = |steps: Vec<Step>| steps[..2] == [Own, Look];
    assert!(looks(steps(0, &enough, false)) && looks(steps(1, &scarce, false)));
    // Five workers look as rarely as six: each once in 60 us.
    assert_eq!(steps(2, &scarce, false), [Own, Receive(2), Queue(UNINTERRUPTED), Queue(0)]);
    assert!(looks(steps(3, &enough, false)) && !looks(steps(60, &scarce, false)));
    assert!(looks(steps(61, &scarce, false)) && !looks(steps(62, &scarce, false)));
    assert!(looks(steps(63, &scarce, true)), "it has stepped aside");
    let first = Local::new(0, &policy.topology);
    let mut crowded = first.clone();
    crowded.crowded = true;
    let mut no_longer = crowded.clone();
    no_longer.skip();
    for (view, local, is_scarce) in
        [(&enough, &first, false), (&scarce, &first, true), (&enough, &crowded, true), (&enough, &no_longer, false)]
    {
        let watch = policy.watch(&running(0, 0, 20), local, view, NOW);
        assert_eq!(watch == Watch::Every(Nanos::from_micros(60)), is_scarce, "{watch:?}");
        let mut asked = Vec::new();
        policy.on_arrivals(view, NOW, local, 2, |worker| asked.push(worker));
        let left = policy.left_to_others(view, NOW, local);
        assert_eq!((asked.len(), left > 0), if is_scarce { (0, false) } else { (2, true) }, "{local:?}");
    }
}

// Does a skipped search leave the same state as one that found nothing?
#[test]
fn a_search_that_is_skipped_leaves_what_a_vain_one_does() {
    for policy in policies() {
        for worker in 0..5 {
            let mut made = Local::new(worker, &policy.topology);
            let mut skipped = made.clone();
            for round in 0..70 {
                for local in [&mut made, &mut skipped] {
                    local.noticed = Noticed::of(0..round % 3);
                }
                search_of(&policy, &mut made);
                skipped.skip();
                // Both states lead to the same next searches.
                let next = |local: &Local| search_of(&policy, &mut local.clone());
                assert_eq!(next(&made), next(&skipped), "{policy:?}, round {round}");
            }
        }
    }
}

// Do jobs use the kernel's notices if arrivals are rare, and looks if notices would take 3 % of the
// CPU time? Notices of 1 us take that if an arrival comes every 6.6 us: each of five workers takes
// one in 33 us. Is a change within a factor of two no change of policy?
#[test]
fn close_arrivals_are_looked_for() {
    let given = |busy| {
        let times = estimate::ServiceTimes::new([(Nanos::from_micros(33), 100)]);
        let measured = Measured::new(times, Nanos::ZERO, busy);
        let tuning = Tuning { notice_cost: Nanos::from_micros(1), measured: Some(measured), ..tuning(5) };
        let policy = tuning.policy("levels");
        (policy.watch(&running(0, 0, 20), &local(&policy), &IDLE, NOW), policy)
    };
    let unmeasured = tuning(5).policy("levels");
    assert_eq!(unmeasured.watch(&running(0, 0, 20), &local(&unmeasured), &IDLE, NOW), Watch::Notices);
    let [rare, even, close, closer] = [1.0, 5.0, 5.1, 10.2].map(given);
    assert_eq!(
        [&rare, &even, &close, &closer].map(|(watch, _)| *watch),
        [Watch::Notices, Watch::Notices, Watch::Looks, Watch::Looks]
    );
    let like = |one: &Policy, other: &Policy| (one.is_like(other), other.is_like(one));
    assert_eq!([like(&rare.1, &even.1), like(&even.1, &close.1), like(&close.1, &closer.1)], [(true, true); 3]);
    assert_eq!([like(&rare.1, &close.1), like(&even.1, &closer.1)], [(false, false); 2]);
}

/// Nothing waits anywhere.
const IDLE: Seen = Seen { busy: false, jobs: [0; 3], half_full: false };
