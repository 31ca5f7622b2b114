//! Do requests wait, run and give way by the CPU time that they have taken?

use super::super::ladder::{Ladder, Ladders};
use super::*;

fn policy() -> Policy {
    levels()
}

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

// Is the order in which queues are searched that of levels, and within a level that in which requests came to it?
#[test]
fn lower_levels_go_first_and_in_them_what_was_interrupted() {
    let policy = policy();
    let queues: Vec<Step> =
        search(&policy, 0).into_iter().filter(|step| matches!(step, Step::Queue(_))).take(6).collect();
    let place = |running| match policy.place(0, Event::Yielded(running)) {
        Place::Queue(queue) => Step::Queue(queue),
        Place::Own => panic!("what steps aside waits in a queue"),
    };
    // A child of a request in the first level, then levels 1 and 2, each interrupted and not begun.
    let rising = [taken(0, 3), taken(5, 9), taken(0, 5), taken(20, 1), taken(5, 15)].map(place);
    assert_eq!(queues[0], Step::Queue(UNINTERRUPTED));
    assert_eq!(queues[1..], rising);
    assert_eq!(place(taken(0, 50)), rising[4], "two levels at once");
    assert_eq!(search(&policy, 0)[0], Step::Own, "fresh ones before all");
}

#[test]
fn a_request_is_asked_where_a_level_begins_and_runs_on_in_the_last() {
    let policy = policy();
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
    let watches = |running| policy.watch(&running, &Fixed, NOW) != Watch::Never;
    assert_eq!([taken(0, 4), taken(0, 5), taken(20, 0)].map(watches), [false, true, true]);
}

// Does a request give way to all lower levels, and to no other request of its own?
#[test]
fn only_lower_levels_go_before_what_runs() {
    let policy = policy();
    let queue = |running| match policy.place(0, Event::Yielded(running)) {
        Place::Queue(queue) => queue,
        Place::Own => panic!("what steps aside waits in a queue"),
    };
    let waiting = [taken(0, 3), taken(5, 9), taken(0, 5), taken(20, 1), taken(5, 15)].map(queue);
    let before = |running| waiting.map(|queue| policy.goes_first(&running).contains(&queue));
    assert_eq!(before(taken(0, 4)), [false; 5]);
    assert_eq!(before(taken(5, 0)), [true, false, false, false, false]);
    assert_eq!(before(taken(20, 0)), [true, true, true, false, false]);
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
    let (blind, policy) = (policy(), of_two_classes());
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
    assert_ne!(policy.watch(&of_class(taken(0, 0)), &Fixed, NOW), Watch::Never);
    let level_one = policy.place(0, Event::Yielded(of_class(taken(0, 30))));
    assert_eq!(level_one, policy.place(0, Event::Yielded(taken(5, 9))), "interrupted, in the same level");
    let Place::Queue(interrupted) = level_one else { panic!("{level_one:?}") };
    assert!(!policy.goes_first(&of_class(taken(0, 30))).contains(&interrupted));
    assert!(policy.goes_first(&of_class(taken(30, 10))).contains(&interrupted));
}

// Do limits that only jitter change nothing where classes are known, and does a class that begins elsewhere?
#[test]
fn a_class_that_begins_elsewhere_is_another_policy() {
    let made = |level, limit_us| {
        let all = Ladder::from_iter([Nanos::from_micros(5)]);
        let mut one = Ladder::new(level);
        one.rise_to(level + 1, Nanos::from_micros(limit_us));
        let ladders = Ladders { all, of_class: Some(Box::new(std::array::from_fn(|_| one.clone()))) };
        made_of(ladders, Tuning::new(4, Nanos::from_micros(50)))
    };
    assert!(made(1, 30).is_like(&made(1, 50)));
    assert!(!made(1, 30).is_like(&made(2, 30)) && !made(1, 30).is_like(&made(1, 70)));
    let blind = made_of(Ladders::blind(Ladder::from_iter([Nanos::from_micros(5)])), Tuning::new(4, Nanos::ZERO));
    assert!(!made(1, 30).is_like(&blind) && !blind.is_like(&made(1, 30)));
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
    let left = |price, workers, worker| made(price, workers).left_to_others(&Fixed, NOW, worker);
    // As many wait in queues as there are workers, so the price counts twice. Workers 0, 3 and 4 are in light requests or
    // none, and one of them sleeps.
    assert_eq!([0, 1, 2, 3].map(|worker| left(Some(500), 5, worker)), [1, 2, 2, 1]);
    assert_eq!(left(Some(500), 4, 1), 1);
    assert_eq!(left(Some(500), 6, 1), 1, "worker 5 has others to begin first");
    assert_eq!([left(Some(250), 5, 1), left(Some(1_000), 5, 1)], [1, 4]);
    assert_eq!([left(Some(200), 5, 1), left(None, 5, 1)], [0, 0]);
    let watch = |price| made(price, 5).watch(&running(1, 0, 9), &Fixed, NOW);
    let (closely, rarely) = (Watch::Closely, Watch::Every(Nanos::from_micros(42)));
    assert_eq!([watch(None), watch(Some(200)), watch(Some(250))], [closely, closely, rarely]);
}

// Do workers that do not watch closely look every 7 us together, and none more often than every 42 us?
#[test]
fn the_more_workers_the_more_rarely_each_looks() {
    let watch = |workers| {
        let policy = Tuning { reserved: Some(1), ..tuning(workers) }.policy("hybrid");
        policy.watch(&running(1, 0, 9), &Fixed, NOW)
    };
    assert_eq!([2, 6, 20].map(watch), [42, 42, 140].map(|us| Watch::Every(Nanos::from_micros(us))));
}

// Does patience know what a yield costs and how long light requests take, and is there none before anything is measured?
#[test]
fn patience_weighs_a_yield_for_all_against_the_rest_of_a_light_request() {
    let of = |bins: &[(u64, u64)], beside_ns| {
        let times = estimate::ServiceTimes::new(bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count)));
        let by_class = [(0, Nanos::ZERO); crate::fate::CLASSES];
        let measured = Some(Measured::new(times, by_class, Nanos::new(beside_ns), 1.0));
        let made =
            PolicyName::named("levels").entry().make(&Tuning { measured, ..Tuning::new(4, Nanos::from_micros(50)) });
        let patience = made.policy().patience();
        let text = patience.map(|patience| format!(", patient from {} waiting on", patience.queued(4)));
        assert!(made.chosen.ends_with(&text.unwrap_or("levels from 50us".to_owned())), "{}", made.chosen);
        patience.map(|patience| (patience.rest.get(), patience.queued(4)))
    };
    let extreme = [(500, 99_500), (500_000, 500)];
    // (.995 * .5^2 + .005 * 2^2) / (.995 * .5 + .005 * 2) / 2 us, as heavy ones are light for their first 2 us. A yield of .1 us
    // takes as long where 4.3 times as many wait as there are workers.
    assert_eq!(of(&extreme, 0), Some((264, 18)));
    assert!(of(&extreme, 1_000).is_some_and(|(rest, queued)| rest > 750 && queued > 56), "each takes 1 us beside");
    assert_eq!(of(&[], 0), None);
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

// Do limits that only jitter change nothing, and others much?
#[test]
fn near_limits_are_alike() {
    let made = |from: &[u64]| made_of(limits(from), Tuning::new(4, Nanos::from_micros(50)));
    assert!(made(&[5, 20]).is_like(&made(&[4, 35])));
    assert!(made(&[5, 20]).is_like(&made(&[5, 9, 20])), "one between them is near one of them");
    assert!(!made(&[5, 20]).is_like(&made(&[5])));
    assert!(!made(&[5]).is_like(&made(&[5, 20])));
    assert!(!made(&[5, 20]).is_like(&made(&[5, 45])));
    assert!(!made(&[]).is_like(&made(&[5])) && made(&[]).is_like(&made(&[])));
}
