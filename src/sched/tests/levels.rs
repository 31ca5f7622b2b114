//! Do requests wait, run and give way by the CPU time that they have taken?

use super::super::ladder::{Ladder, Ladders};
use super::*;

/// Levels from these times on, in microseconds.
fn limits(from: &[u64]) -> Ladders {
    Ladders::blind(from.iter().map(|us| Nanos::from_micros(*us)).collect())
}

fn made_of(ladders: Ladders, tuning: Tuning) -> Made {
    PolicyName::named("levels").entry().make(&Tuning { ladders: Some(ladders), ..tuning })
}

/// A request that had taken this much before, and has run for this long since.
fn taken(attained_us: u64, ran_us: u64) -> Running {
    Running { continuation: attained_us > 0, attained: Nanos::from_micros(attained_us), ..running(0, 0, ran_us) }
}

// Is the order in which queues are searched that of levels, and within a level that in which requests came to it? Does a
// request give way to all lower levels, and to no other request of its own?
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
    // A child of a request in the first level, then levels 1 and 2, each interrupted and not begun.
    let rising = [taken(0, 3), taken(5, 9), taken(0, 5), taken(20, 1), taken(5, 15)].map(place);
    assert_eq!((queues[0], &queues[1..6]), (UNINTERRUPTED, &rising[..]));
    assert_eq!(place(taken(0, 50)), rising[4], "two levels at once");
    assert_eq!(search(&policy, 0)[0], Step::Own, "fresh ones before all");
    for (running, before) in [(taken(0, 4), 0), (taken(5, 0), 1), (taken(20, 0), 3)] {
        let goes_first = rising.map(|queue| policy.goes_first(&running).contains(&queue));
        assert_eq!(goes_first, std::array::from_fn(|place| place < before), "{running:?}");
    }
}

#[test]
fn a_request_is_asked_where_a_level_begins_and_runs_on_in_the_last() {
    let policy = levels();
    let ask_after = |running| policy.ask_after(&running).map(Nanos::get);
    assert_eq!(
        [taken(0, 0), taken(0, 2), taken(5, 0), taken(6, 3)].map(ask_after),
        [5, 3, 15, 11].map(|us| Some(us * 1_000))
    );
    assert_eq!(ask_after(taken(20, 0)), None);
    let verdict = |running| policy.at_checkpoint(&running);
    assert_eq!(
        [taken(0, 4), taken(0, 5), taken(5, 14)].map(verdict),
        [Verdict::Keep, Verdict::Yield, Verdict::YieldIfWanted]
    );
    assert_eq!([taken(5, 15), taken(20, 99)].map(verdict), [Verdict::Yield, Verdict::YieldIfWanted]);
    let flagged = |running| Running { flagged: true, ..running };
    assert_eq!([taken(0, 4), taken(5, 1)].map(flagged).map(verdict), [Verdict::Keep, Verdict::Yield]);
    let watches = |running| policy.watch(&running, &FIXED, NOW) != Watch::Never;
    assert_eq!([taken(0, 4), taken(0, 5), taken(20, 0)].map(watches), [false, true, true]);
}

/// Class 1 begins at level 1 and comes to level 2 at 40 us; all others are as [`levels`] has them.
fn of_two_classes() -> Policy {
    let all = Ladder::from_iter([5, 20].map(Nanos::from_micros));
    let mut later = Ladder::new(1);
    later.rise_to(2, Nanos::from_micros(40));
    let of_class = std::array::from_fn(|class| if class == 1 { later.clone() } else { all.clone() });
    let ladders = Ladders { all, of_class: Some(Box::new(of_class)) };
    levels_of(ladders)
}

// Does a request whose class begins higher wait behind all of level 0, and with what has come to its level? Does it step
// aside from its begin on, and rise where its class does?
#[test]
fn a_class_begins_at_its_level_and_rises_by_its_own_limits() {
    let (blind, policy) = (levels(), of_two_classes());
    let arrived = |policy: &Policy, class| policy.place(0, Event::Arrived { class, backlog: 0 });
    for class in [None, Some(0)] {
        assert_eq!(arrived(&policy, class), Place::Own);
    }
    assert_eq!(arrived(&blind, Some(1)), Place::Own, "no class is known");
    assert_eq!(arrived(&policy, Some(1)), policy.place(0, Event::Yielded(taken(0, 5))), "level 1, not begun");
    let of_class = |running| Running { class: Some(1), ..running };
    let ask_after = |running| policy.ask_after(&of_class(running)).map(Nanos::get);
    assert_eq!([taken(0, 0), taken(20, 5)].map(ask_after), [Some(40_000), Some(15_000)]);
    assert_eq!(ask_after(taken(40, 0)), None);
    let verdict = |running| policy.at_checkpoint(&of_class(running));
    assert_eq!([taken(0, 0), taken(20, 20)].map(verdict), [Verdict::YieldIfWanted, Verdict::Yield]);
    assert_ne!(policy.watch(&of_class(taken(0, 0)), &FIXED, NOW), Watch::Never);
    let level_one = policy.place(0, Event::Yielded(of_class(taken(0, 30))));
    assert_eq!(level_one, policy.place(0, Event::Yielded(taken(5, 9))), "interrupted, in the same level");
    let Place::Queue(interrupted) = level_one else { panic!("{level_one:?}") };
    assert!(!policy.goes_first(&of_class(taken(0, 30))).contains(&interrupted));
    assert!(policy.goes_first(&of_class(taken(30, 10))).contains(&interrupted));
}

#[test]
fn without_limits_it_is_global() {
    let alike = |ns: u64| estimate::ServiceTimes::new([(Nanos::new(ns), 50_000)]);
    let measured = Measured::new(alike(10_000), [(0, Nanos::ZERO); crate::fate::CLASSES], Nanos::ZERO, 1.0);
    let tuning = Tuning::new(4, Nanos::from_micros(50));
    let made = |measured| PolicyName::named("levels").entry().make(&Tuning { measured, ..tuning.clone() });
    let name = |made: &Made| made.name.name();
    let one = made(Some(measured));
    assert_eq!((name(&one), one.budget, one.chosen.as_str()), ("levels", None, "one level"));
    assert_eq!(one.policy(), tuning.policy("global"));
    let start = made(None);
    assert_eq!((start.budget, start.chosen.as_str()), (Some(Nanos::from_micros(50)), "levels from 50us"));
}

// Are as many fresh requests left to workers in light ones, or in none, as these end within the price of a yield? Does a
// heavy request watch closely where it would leave none?
#[test]
fn fresh_requests_are_left_to_workers_that_are_soon_free() {
    let made = |price: Option<u64>, workers| {
        let patience = price.map(|price| Patience::of(Nanos::new(price), Nanos::new(500)));
        let levels = Tuning { ladders: Some(limits(&[5, 20])), ..tuning(workers) }.policy("levels");
        levels.with_patience(patience)
    };
    let left = |price, workers, worker| made(price, workers).left_to_others(&FIXED, NOW, worker);
    // As many wait in queues as there are workers, so the price counts twice. Workers 0, 3 and 4 are in light requests or
    // none, and one of them sleeps.
    assert_eq!([0, 1, 2, 3].map(|worker| left(Some(500), 5, worker)), [1, 2, 2, 1]);
    assert_eq!(left(Some(500), 4, 1), 1);
    assert_eq!(left(Some(500), 6, 1), 1, "worker 5 has others to begin first");
    assert_eq!([left(Some(250), 5, 1), left(Some(1_000), 5, 1)], [1, 4]);
    assert_eq!([left(Some(200), 5, 1), left(None, 5, 1)], [0, 0]);
    let watch = |price| made(price, 5).watch(&running(1, 0, 9), &FIXED, NOW);
    let (closely, rarely) = (Watch::Closely, Watch::Every(Nanos::from_micros(10)));
    assert_eq!([watch(None), watch(Some(200)), watch(Some(250))], [closely, closely, rarely]);
}

// Do levels for the latency keep the order of arrival in level 0? Then fresh requests wait in one queue, before all others,
// and a look comes before heavier ones. Is it another policy, with the same limits?
#[test]
fn levels_for_the_latency_keep_the_order_of_arrival() {
    let in_order = rows::in_order(levels());
    assert_eq!(in_order.place(0, Event::Arrived { class: None, backlog: 0 }), Place::Queue(0));
    let steps = search(&in_order, 0);
    assert_eq!(steps[0], Step::Queue(0));
    let at = |step| steps.iter().position(|other| *other == step).expect("it is searched");
    assert!(at(Step::Look) < at(Step::Queue(1)), "{steps:?}");
    assert!(in_order.goes_first(&taken(5, 0)).contains(&0) && !in_order.goes_first(&taken(0, 4)).contains(&0));
    let made = |objective| made_of(limits(&[5]), Tuning { objective, ..Tuning::new(4, Nanos::ZERO) });
    let (latency, slowdown) = (made(Objective::Latency), made(Objective::Slowdown));
    assert!(!latency.is_like(&slowdown) && latency.is_like(&latency));
}

// Do limits that only jitter change nothing, and others much? Does a class that begins at another level?
#[test]
fn near_limits_are_alike() {
    let made = |ladders| made_of(ladders, Tuning::new(4, Nanos::from_micros(50)));
    for (one, other, alike) in [
        (&[5, 20][..], &[4, 35][..], true),
        // One between them is near one of them.
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
        // No class is known.
        (made(limits(&[5])), false),
    ] {
        let one = of_class(1, 30);
        assert_eq!((one.is_like(&other), other.is_like(&one)), (alike, alike), "{other:?}");
    }
}
