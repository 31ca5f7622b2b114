//! Do requests wait, run and yield by the CPU time that they have used?

use super::super::ladder::{Ladder, Ladders};
use super::*;

/// Levels from these times on, in microseconds.
fn limits(from: &[u64]) -> Ladders {
    Ladders::blind(from.iter().map(|us| Nanos::from_micros(*us)).collect())
}

fn made_of(ladders: Ladders, tuning: &Tuning) -> Made {
    Decision::of(ladders, "").make(tuning)
}

/// A request that had used `attained_us` before, and has run for `ran_us` since.
fn taken(attained_us: u64, ran_us: u64) -> RunningJob {
    RunningJob { attained: Nanos::from_micros(attained_us), ..running(0, 0, ran_us) }
}

// Are queues searched in the order of levels, and within a level in the order in which requests
// came to it? Does a request yield to all lower levels, but to no request of its own?
#[test]
fn lower_levels_go_first_and_in_them_what_was_interrupted() {
    let policy = levels();
    let queues: Vec<PoolId> = search(&policy, 0)
        .iter()
        .filter_map(|step| if let Step::Queue(queue) = step { Some(*queue) } else { None })
        .collect();
    let place = |running| match policy.place(0, Event::Yielded(running)) {
        Place::Queue(queue) => queue,
        Place::Own => panic!("what steps aside waits in a queue"),
    };
    // The queues of a child of a request in level 0, then of level 1 and level 2: first interrupted
    // requests, then new ones.
    let rising = [taken(0, 3), taken(5, 9), taken(0, 5), taken(20, 1), taken(5, 15)].map(place);
    assert_eq!((queues[0], &queues[1..6]), (UNINTERRUPTED, &rising[..]));
    assert_eq!(place(taken(0, 50)), rising[4], "two levels at once");
    assert_eq!(search(&policy, 0)[0], Step::Own, "fresh ones before all");
    for (running, before) in [(taken(0, 4), 0), (taken(5, 0), 1), (taken(20, 0), 3)] {
        let goes_first = rising.map(|queue| policy.goes_first(&running).contains(&queue));
        assert_eq!(goes_first, std::array::from_fn(|place| place < before), "{running:?}");
    }
}

/// Class 1 begins at level 1 and reaches level 2 at 40 us. All others are as in [`levels`].
fn of_two_classes() -> Policy {
    let all = Ladder::from_iter([5, 20].map(Nanos::from_micros));
    let mut later = Ladder::new(1);
    later.rise_to(2, Nanos::from_micros(40));
    let of_class = std::array::from_fn(|class| if class == 1 { later.clone() } else { all.clone() });
    let ladders = Ladders { all, of_class: Some(Box::new(of_class)) };
    levels_of(ladders)
}

// Does a request whose class begins higher wait behind level 0, with others of its level? Does it
// yield from its first checkpoint on, and rise by its class's limits?
#[test]
fn a_class_begins_at_its_level_and_rises_by_its_own_limits() {
    let (blind, policy) = (levels(), of_two_classes());
    let arrived = |policy: &Policy, class| policy.place_fresh(&local(policy), class, &FIXED);
    for class in [None, Some(0)] {
        assert_eq!(arrived(&policy, class), Place::Own);
    }
    assert_eq!(arrived(&blind, Some(1)), Place::Own, "no class is known");
    assert_eq!(arrived(&policy, Some(1)), policy.place(0, Event::Yielded(taken(0, 5))), "level 1, not begun");
    let of_class = |running| RunningJob { class: Some(1), ..running };
    let ask_after = |running| policy.ask_after(&of_class(running)).map(Nanos::get);
    assert_eq!([taken(0, 0), taken(20, 5)].map(ask_after), [Some(40_000), Some(15_000)]);
    assert_eq!(ask_after(taken(40, 0)), None);
    let verdict = |running| policy.at_checkpoint(&of_class(running));
    assert_eq!([taken(0, 0), taken(20, 20)].map(verdict), [Verdict::YieldIfWanted, Verdict::Yield]);
    assert_ne!(policy.watch(&of_class(taken(0, 0)), &local(&policy), &FIXED, NOW), Watch::Never);
    let level_one = policy.place(0, Event::Yielded(of_class(taken(0, 30))));
    assert_eq!(level_one, policy.place(0, Event::Yielded(taken(5, 9))), "interrupted, in the same level");
    let Place::Queue(interrupted) = level_one else { panic!("{level_one:?}") };
    assert!(!policy.goes_first(&of_class(taken(0, 30))).contains(&interrupted));
    assert!(policy.goes_first(&of_class(taken(30, 10))).contains(&interrupted));
}

// Do limits that differ by noise count as equal, and larger differences as a change? Does a class
// that begins at another level count as a change?
#[test]
fn near_limits_are_alike() {
    let made = |ladders| made_of(ladders, &Tuning::new(4, Nanos::from_micros(50)));
    for (one, other, alike) in [
        (&[5, 20][..], &[4, 35][..], true),
        // The limit 9 is near 5 or 20, so this counts as no change.
        (&[5, 20], &[5, 9, 20], true),
        (&[5, 20], &[5], false),
        (&[5, 20], &[5, 45], false),
        (&[], &[5], false),
        (&[], &[], true),
    ] {
        let [one, other] = [one, other].map(|from| made(limits(from)));
        assert_eq!((one.is_like(&other), other.is_like(&one)), (alike, alike), "{one:?} {other:?}");
    }
    let of_class = |level, limit_us| {
        let mut one = Ladder::new(level);
        one.rise_to(level + 1, Nanos::from_micros(limit_us));
        made(Ladders { of_class: Some(Box::new(std::array::from_fn(|_| one.clone()))), ..limits(&[5]) })
    };
    for (other, alike) in [
        (of_class(1, 50), true),
        (of_class(2, 30), false),
        (of_class(1, 70), false),
        // The same without classes.
        (made(limits(&[5])), false),
    ] {
        let one = of_class(1, 30);
        assert_eq!((one.is_like(&other), other.is_like(&one)), (alike, alike), "{other:?}");
    }
}
