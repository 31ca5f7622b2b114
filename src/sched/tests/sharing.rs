//! Do the options of sharing change an order and never a set: is every place looked at, is no place always left to the
//! end, and does stealing first keep nothing else from being served?

use super::*;

/// Every choice that a search knows of, alone and together.
fn sharings() -> Vec<Sharing> {
    let of = |victim| [0, 2, 3, 61].map(|steal_every| Sharing { victim, steal_every, ..Sharing::default() });
    Victim::ALL.into_iter().flat_map(of).collect()
}

/// All sequences of outcomes up to a depth, in many searches of each worker one after the other.
#[test]
fn under_every_option_a_resting_worker_has_looked_everywhere() {
    const DEPTH: u32 = 4;
    let all = [Outcome::Found, Outcome::Empty, Outcome::Contended];
    for policy in policies() {
        for worker in 0..5 {
            let everything: HashSet<Step> = search(&policy, worker, &[]).into_iter().collect();
            for sharing in sharings() {
                let policy = policy.clone().with_sharing(sharing);
                let mut local = Local::new(worker, policy.topology());
                for sequence in 0..3_usize.pow(DEPTH) * 3 {
                    let outcomes: Vec<Outcome> =
                        (0..DEPTH).map(|digit| all[sequence / 3_usize.pow(digit) % 3]).collect();
                    let steps = search_of(&policy, &mut local, &outcomes);
                    let used = &outcomes[..outcomes.len().min(steps.len() - 1)];
                    let since = used.iter().rposition(|outcome| *outcome == Outcome::Found).map_or(0, |find| find + 1);
                    let contended = used[since..].contains(&Outcome::Contended);
                    let (rest, places) = steps[since..].split_last().expect("a search ends with rest");
                    assert_eq!(*rest, Step::Idle { contended }, "{sharing:?}, {outcomes:?}");
                    let mut seen: HashSet<Step> = places.iter().copied().collect();
                    seen.insert(Step::Idle { contended: false });
                    assert_eq!(seen, everything, "worker {worker}, {sharing:?}, {outcomes:?}");
                }
            }
        }
    }
}

/// How often each victim is the first of 5,000 searches of worker 2 of five.
fn first_victims(victim: Victim) -> [usize; 5] {
    let steal = Steal { thief_threshold: Nanos::from_micros(20) };
    let policy =
        Policy::new(Kind::Steal(steal), &Topology::new(&[5])).with_sharing(Sharing { victim, ..Sharing::default() });
    let mut local = Local::new(2, policy.topology());
    let mut first = [0; 5];
    for _ in 0..5_000 {
        let steps = search_of(&policy, &mut local, &[]);
        let victims: Vec<WorkerId> =
            steps.iter().filter_map(|step| if let Step::Steal(victim) = step { Some(*victim) } else { None }).collect();
        assert_eq!(victims.len(), 4, "each of the others once, nobody twice");
        first[victims[0]] += 1;
    }
    first
}

#[test]
fn no_victim_is_always_first_or_never() {
    let nearly = |counts: [usize; 5], shares: [f64; 5]| {
        let close = |(count, share): (&usize, f64)| (*count as f64 / 5_000.0 - share).abs() < 0.02;
        assert!(counts.iter().zip(shares).all(close), "{counts:?}, expected {shares:?}");
    };
    assert_eq!(first_victims(Victim::RoundRobin), [1_250, 1_250, 0, 1_250, 1_250]);
    nearly(first_victims(Victim::Random), [0.25, 0.25, 0.0, 0.25, 0.25]);
    // The backlog grows with the number: the victim with most is first in three of six pairs, the one with least in
    // none.
    nearly(first_victims(Victim::TwoChoices), [0.0, 1.0 / 6.0, 0.0, 2.0 / 6.0, 3.0 / 6.0]);
}

/// A thief chooses a socket by how long its owner has been stuck.
#[test]
fn of_two_busy_workers_the_one_that_is_stuck_for_longer_is_robbed_first() {
    struct Stuck;

    impl View for Stuck {
        fn busy_since(&self, worker: WorkerId) -> Option<Nanos> {
            [None, Some(Nanos::from_millis(5)), Some(Nanos::ZERO)][worker]
        }

        fn backlog(&self, _: WorkerId) -> usize {
            0
        }

        fn queue_len_up_to(&self, _: PoolId, _: usize) -> usize {
            0
        }

        fn queue_is_empty(&self, _: PoolId) -> bool {
            true
        }

        fn queued(&self) -> usize {
            0
        }

        fn queues_are_half_full(&self) -> bool {
            false
        }

        fn next_socket(&self) -> WorkerId {
            0
        }
    }

    let policy = Policy::new(Kind::Steal(Steal { thief_threshold: Nanos::from_micros(20) }), &Topology::new(&[3]))
        .with_sharing(Sharing { victim: Victim::TwoChoices, ..Sharing::default() });
    let mut local = Local::new(0, policy.topology());
    let mut first = [0; 3];
    for _ in 0..3_000 {
        local.begin();
        let mut sockets = std::iter::from_fn(|| match policy.next(&mut local, NOW, &Stuck) {
            Step::Idle { .. } => None,
            step => Some(step),
        });
        match sockets.find(|step| matches!(step, Step::Receive(1 | 2))) {
            Some(Step::Receive(victim)) => first[victim] += 1,
            _ => panic!("a stuck worker is robbed"),
        }
    }
    assert_eq!(first, [0, 0, 3_000]);
}

#[test]
fn the_same_worker_always_draws_the_same_and_another_one_something_else() {
    let policy = policies()[2].clone().with_sharing(Sharing { victim: Victim::Random, ..Sharing::default() });
    let walks = |worker| {
        let mut local = Local::new(worker, policy.topology());
        (0..100).flat_map(|_| search_of(&policy, &mut local, &[])).collect::<Vec<_>>()
    };
    assert_eq!(walks(1), walks(1));
    let theft = |steps: Vec<Step>| -> Vec<Step> { steps.into_iter().filter(|step| *step == Step::Steal(3)).collect() };
    assert_eq!(theft(walks(1)).len(), 100);
    assert_ne!(walks(1), walks(2));
}

/// The finds of the searches of worker 0 where something is everywhere, always.
fn finds(policy: &Policy, searches: usize) -> Vec<Step> {
    let mut local = Local::new(0, policy.topology());
    let mut find = || {
        local.begin();
        policy.next(&mut local, NOW, &Fixed)
    };
    (0..searches).map(|_| find()).collect()
}

/// Own work goes first in the rest of the searches, the queue of tasks keeps its share of one in 61, whatever the share
/// of searches that steal first is; a share that runs in step with that one is the hard case.
#[test]
fn obligatory_theft_starves_nothing() {
    const SEARCHES: usize = 61 * 200;
    for every in [2, 3, 7, 61, 122, 1_000] {
        let tasks = policies()[8].clone().with_sharing(Sharing { steal_every: every, ..Sharing::default() });
        let found = finds(&tasks, SEARCHES);
        let count = |wanted: Step| found.iter().filter(|step| **step == wanted).count() as f64 / SEARCHES as f64;
        let (stolen, queued, own) = (count(Step::Steal(1)), count(Step::Queue(0)), count(Step::Own));
        let share = 60.0 / 61.0 / f64::from(every);
        assert!((stolen - share).abs() < 0.01, "one in {every}: {stolen}");
        assert!((queued - 1.0 / 61.0).abs() < 1e-9, "one in {every}: the queue has {queued}");
        assert!((own - (60.0 / 61.0 - stolen)).abs() < 1e-9, "one in {every}: {own}");
    }
}

#[test]
fn nobody_is_obliged_to_steal_under_a_policy_that_does_not() {
    let sharing = Sharing { steal_every: 2, ..Sharing::default() };
    for (policy, first) in [(0, Step::Own), (1, Step::Queue(0)), (7, Step::Queue(0))] {
        let policy = policies()[policy].clone().with_sharing(sharing);
        assert!(finds(&policy, 1_000).iter().all(|step| *step == first));
    }
    assert!(finds(&policies()[2], 1_000).iter().all(|step| *step == Step::Own), "it is off by default");
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    for deques in [0, DEQUES_MAX + 1] {
        let bad = Sharing { deques, ..Sharing::default() }.check().unwrap_err().to_string();
        assert!(bad.starts_with(&format!("deques is {deques}; allowed: 1 to 16")), "{bad}");
    }
    for steal_every in [1, STEAL_EVERY_MAX + 1] {
        let bad = Sharing { steal_every, ..Sharing::default() }.check().unwrap_err().to_string();
        assert!(bad.starts_with(&format!("steal_every is {steal_every}; allowed: 0 for never, or 2 to")), "{bad}");
    }
    assert_eq!(Sharing::default().check(), Ok(()));
}

#[test]
fn every_producer_reaches_every_shard() {
    for insertion in Insertion::ALL {
        for shards in [2, 4, 7] {
            for producer in [0, 1, 65] {
                let mut into = vec![0; shards];
                for turn in 0..1_000 * shards {
                    let [first, second] = insertion.shards(producer, turn).map(|shard| shard % shards);
                    assert_eq!(first == second, insertion != Insertion::ShorterOfTwo, "{insertion:?}");
                    into[first] += 1;
                }
                let even = |count: &usize| (900..1_100).contains(count);
                assert!(into.iter().all(even), "{insertion:?} of {producer}: {into:?}");
            }
        }
    }
}

/// Workers under `shed` in any order of turns, their sockets never empty: the queue holds at most what is too much of
/// one batch for each, so it is never full, and no request is lost for want of room in it.
#[test]
fn what_is_shed_stays_little_because_it_is_taken_back_before_more_is_received() {
    const BATCH: usize = 32;
    let policy = &policies()[6];
    let kept = (0..BATCH)
        .take_while(|backlog| policy.place(0, Event::Arrived { class: None, backlog: *backlog }) == Place::Own);
    let surplus = BATCH - kept.count();
    for seed in 0..20 {
        let (mut deques, mut queue, mut longest) = ([0_usize; 5], 0_usize, 0);
        let mut locals: Vec<Local> = (0..5).map(|worker| Local::new(worker, policy.topology())).collect();
        let order = Sharing { victim: Victim::Random, ..Sharing::default() };
        for turn in 0..20_000 {
            let worker = order.victim.first(seed, turn, 5, |_| 0);
            locals[worker].begin();
            loop {
                let step = policy.next(&mut locals[worker], NOW, &Fixed);
                let found = match step {
                    Step::Own => take(&mut deques[worker]),
                    Step::Queue(0) => take(&mut queue),
                    Step::Receive(_) => {
                        for _ in 0..BATCH {
                            let event = Event::Arrived { class: None, backlog: deques[worker] };
                            *(if policy.place(0, event) == Place::Own { &mut deques[worker] } else { &mut queue }) += 1;
                        }
                        true
                    }
                    _ => panic!("with sockets that are never empty no search comes to {step:?}"),
                };
                if found {
                    break;
                }
                policy.on_outcome(&mut locals[worker], Outcome::Empty);
            }
            longest = longest.max(queue);
        }
        assert!(longest > 0 && longest <= 5 * surplus, "seed {seed}: {longest} waited");
    }
}

/// Takes one job, if there is one.
fn take(count: &mut usize) -> bool {
    let found = *count > 0;
    *count -= usize::from(found);
    found
}

// Is what is read what was written, and an error named?
#[test]
fn options_are_read_from_their_text() {
    let read: Sharing = "victim=two-choices, amount=one,every=61,deques=2,insertion=random".parse().expect("options");
    let expected = Sharing {
        victim: Victim::TwoChoices,
        amount: Amount::One,
        steal_every: 61,
        deques: 2,
        insertion: Insertion::Random,
    };
    assert_eq!(read, expected);
    for text in ["", "victim", "victim=all", "every=1", "deques=17", "every=x", "who=random"] {
        let error = text.parse::<Sharing>().expect_err(text).to_string();
        assert!(error.contains("allowed") || error.contains("victim=random|round-robin|two-choices"), "{error}");
    }
}
