use super::*;
use crate::estimate::ServiceTimes;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal, Pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

fn times(bins: &[(u64, u64)]) -> ServiceTimes {
    ServiceTimes::new(bins.iter().map(|(ns, count)| (Nanos::new(*ns), *count)))
}

fn extreme() -> ServiceTimes {
    times(&[(500, 99_500), (500_000, 500)])
}

fn measured(times: &ServiceTimes) -> Measured {
    let beside = times.beside;
    Measured::new(times.clone(), beside, 1.0)
}

/// An `auto` that knows only the cost of a yield.
fn auto(yield_ns: u64) -> Auto {
    Auto::new(&Tuning { yield_cost: Nanos::new(yield_ns), ..Tuning::new(4, Nanos::ZERO) })
}

/// The decision from these service times alone.
fn decided(times: &ServiceTimes, yield_ns: u64) -> Decision {
    Decision::by(&auto(yield_ns).tuning, &measured(times))
}

/// The name of the decided policy, or that no request yields.
fn judged(times: &ServiceTimes, yield_ns: u64) -> &'static str {
    let decision = decided(times, yield_ns);
    match decision.name().name() {
        "levels" if !decision.gives_way() => "one level",
        name => name,
    }
}

fn decide<'a>(auto: &'a mut Auto, times: &ServiceTimes) -> Option<&'a Decision> {
    auto.decide(&measured(times))
}

fn first_limit(times: &ServiceTimes, yield_ns: u64) -> Nanos {
    let decision = decided(times, yield_ns);
    assert_eq!(decision.name().name(), "levels", "{decision:?}");
    decision.ladders.first_limit().expect("a limit")
}

// Does the choice depend on the cost of a yield, and on whether service times differ?
#[test]
fn costs_and_yields_decide() {
    let beside = |times: ServiceTimes| ServiceTimes { beside: Nanos::new(2_680), ..times };
    let alike = |ns| times(&[(ns, 50_000)]);
    for (times, yield_ns, expected) in [
        (extreme(), 150, "levels"),
        (extreme(), 450, "global"),
        (extreme(), 2_000, "one level"),
        (beside(extreme()), 150, "levels"),
        // Only the time in the handler counts: 3.18 us outside it change nothing.
        (beside(extreme()), 450, "global"),
        (alike(10_000), 100, "global"),
        // 20 yields take longer than a heavy request.
        (times(&[(500, 9_000), (5_500, 1_000)]), 300, "global"),
    ] {
        assert_eq!(judged(&times, yield_ns), expected, "{times:?}, yields of {yield_ns} ns");
    }
    assert_eq!(decided(&times(&[(500, 300), (500_000, 100)]), 100), Decision::too_few(400, Nanos::ZERO));
}

// Passing on a request of 10 us takes .65 us: two yields of .1 us and a look of .45 us. So 4
// workers have time for it until 3.74 of them are busy. With groups, passing on costs eight times
// as much.
#[test]
fn one_queue_for_all_takes_the_time_to_pass_requests_on() {
    let judged = |groups, busy_workers| {
        let ns = Nanos::new;
        let auto = Auto::new(&Tuning { groups, yield_cost: ns(100), look_cost: ns(150), ..Tuning::new(4, ns(0)) });
        let measured = Measured { busy_workers, ..measured(&times(&[(10_000, 50_000)])) };
        Decision::by(&auto.tuning, &measured).name().name()
    };
    assert_eq!(
        [judged(1, 3.73), judged(1, 3.75), judged(4, 1.91), judged(4, 1.93)],
        ["global", "levels"].repeat(2)[..]
    );
}

// Emulated cores measure exactly. Would the noise of real cores change the choice or the budget?
// Method: a spread of 1 %, and interruptions of 2.3 us or 46 us at 1,200 a second, as on a busy
// virtual machine.
#[test]
fn the_noise_of_a_real_clock_changes_no_choice() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    // Extreme and high bimodal, micropools, and two mixes for real cores: heavy requests in 10,000,
    // and both service times.
    for (heavies, light, heavy) in [
        (50, 500, 500_000),
        (5_000, 1_000, 100_000),
        (1, 1_000, 2_000_000),
        (100, 10_000, 1_000_000),
        (50, 20_000, 10_000_000),
    ] {
        let mut budget = |interruption: u64| {
            let noisy = (0..200_000).map(|request| {
                let exact = f64::from(if request % 10_000 < heavies { heavy } else { light });
                let expected = exact * 1_200e-9;
                let hits = expected.floor() + f64::from(u8::from(random.random::<f64>() < expected.fract()));
                let took = exact * random.random_range(0.99..1.01) + hits * interruption as f64;
                (Nanos::new(took as u64), 1)
            });
            first_limit(&ServiceTimes::new(noisy.collect::<Vec<_>>()), 100).get()
        };
        let (exact, brief, long) = (budget(0), budget(2_300), budget(46_000));
        // Light requests, some of them interrupted.
        for (noisy, interruption) in [(brief, 2_300), (long, 46_000)] {
            let most = (exact + 2 * interruption) * 3 / 2;
            assert!(noisy >= exact && noisy <= most, "{light} and {heavy} ns: {noisy}, {exact} to {most}");
        }
    }
}

// Does an hour without a change halve the number of decisions that a change takes?
#[test]
fn an_hour_without_a_change_halves_what_a_change_takes() {
    let mut auto = auto(100);
    auto.in_a_row = 8 * DECISIONS_IN_A_ROW;
    let after = |auto: &mut Auto, decisions| {
        (0..decisions).for_each(|_| {
            decide(auto, &ServiceTimes::default());
        });
        auto.in_a_row / DECISIONS_IN_A_ROW
    };
    assert_eq!(after(&mut auto, DECISIONS_UNCHANGED - 1), 8);
    assert_eq!(after(&mut auto, 1), 4);
    assert_eq!(after(&mut auto, 3 * DECISIONS_UNCHANGED), 1, "no fewer than at the start");
}

// After three seconds with enough requests, is there a first choice, even if the decisions of these
// seconds differ? Until then, does the reason say how few requests there were?
#[test]
fn the_first_choice_is_made_whether_or_not_it_rests() {
    let mut auto = auto(100);
    let (few, alike) = (times(&[(10_000, 400)]), times(&[(10_000, 50_000)]));
    assert_eq!(decide(&mut auto, &few), None);
    assert!(auto.current.reason.starts_with("400 requests in the last seconds are too few"));
    assert_eq!(decide(&mut auto, &extreme()), None);
    assert_eq!(decide(&mut auto, &alike), None);
    assert!(decide(&mut auto, &extreme()).is_some_and(|decision| decision.name().name() == "levels"));
}

// Does the third agreeing decision replace the current one? Does any other decision, or a
// confirmation, restart the count?
#[test]
fn a_decision_changes_when_three_agree() {
    let [near, far] =
        [(20_000, 2_000_000), (200_000, 20_000_000)].map(|(light, heavy)| times(&[(light, 50_000), (heavy, 50_000)]));
    let mut auto = auto(100);
    assert!((0..3).any(|_| decide(&mut auto, &extreme()).is_some()));
    auto.in_a_row = 3;
    let decisions = [&near, &near, &extreme(), &near, &far, &far, &near, &near, &near];
    let changes = decisions.map(|times| decide(&mut auto, times).is_some());
    assert_eq!(changes, [[false; 8].as_slice(), &[true]].concat()[..]);
}

// After a shift of the mix, does the second decision with levels replace the current one? Also if
// the two differ, and after many changes, but not if one of them confirms the current one? Does
// first come, first served still take the full number, with the shift counted as one?
#[test]
fn after_a_shift_the_second_decision_counts() {
    let [alike, near, far] = [(10_000, 10_000), (20_000, 2_000_000), (200_000, 20_000_000)]
        .map(|(light, heavy)| times(&[(light, 50_000), (heavy, 50_000)]));
    let shifted = |times: &ServiceTimes| Measured { has_shifted: true, ..measured(times) };
    let begun = || {
        let mut auto = auto(100);
        assert!((0..3).any(|_| decide(&mut auto, &extreme()).is_some()));
        auto.in_a_row = 6;
        auto
    };
    let mut auto = begun();
    assert_eq!(auto.decide(&shifted(&near)), None);
    assert!(decide(&mut auto, &far).is_some());
    assert!([&near, &extreme()].iter().all(|times| decide(&mut auto, times).is_none()), "changes of mind again");

    let mut auto = begun();
    assert_eq!(auto.decide(&shifted(&extreme())), None, "the second in which it shifts may look like those before");
    assert_eq!(auto.decide(&measured(&times(&[(10_000, 9)]))), None, "too few to judge by");
    assert_eq!(decide(&mut auto, &near), None);
    assert!(decide(&mut auto, &far).is_some());

    let mut auto = begun();
    assert_eq!(auto.decide(&shifted(&near)), None);
    assert_eq!(decide(&mut auto, &extreme()), None, "confirmed");
    assert!([&near, &far].iter().all(|times| decide(&mut auto, times).is_none()), "two that differ");

    let mut auto = begun();
    assert_eq!(auto.decide(&shifted(&alike)), None);
    let changes = (3..=6).map(|_| decide(&mut auto, &alike).is_some()).collect::<Vec<_>>();
    assert_eq!(changes, [false, false, false, true]);
}

/// Two mixes that alternate, each measured for `seconds`: limits above 4 us and above 20 us.
fn alternating(seconds: [u64; 2]) -> [Measured; 2] {
    let first = [(4_000, 90_000 * seconds[0]), (100_000, 10_000 * seconds[0])];
    let second = [(20_000, 49_500 * seconds[1]), (2_000_000, 500 * seconds[1])];
    let of = |bins: &[(u64, u64)], seconds: u64| {
        let times = times(bins);
        let busy_workers = times.count() as f64 * times.mean().get() as f64 / (seconds as f64 * 1e9);
        Measured { has_shifted: true, ..Measured::new(times, Nanos::ZERO, busy_workers) }
    };
    [of(&first, seconds[0]), of(&second, seconds[1])]
}

/// The first two limits in force, in microseconds.
fn limits_us(auto: &Auto) -> Vec<u64> {
    auto.current.ladders.all.limits().take(2).map(|limit| limit.get() / 1_000).collect()
}

// If a mix comes back, does its first decision already have the limits of both mixes, and do these
// stay while the mixes alternate? Is a mix forgotten that does not come back?
#[test]
fn a_mix_that_comes_back_finds_its_limits() {
    let [first, second] = alternating([1, 1]);
    let mut auto = auto(100);
    let mut seen = Vec::new();
    for (measured, decisions) in [(&first, 3), (&second, 2), (&first, 1), (&second, 1), (&first, 1)] {
        let changes = (0..decisions).filter(|_| auto.decide(measured).is_some()).count();
        seen.push((changes, limits_us(&auto)));
    }
    assert_eq!(seen[..2], [(1, vec![4]), (1, vec![21])], "each mix alone");
    assert_eq!(seen[2..], [(1, vec![4, 21]), (0, vec![4, 21]), (0, vec![4, 21])], "both");
    let calm = Measured { has_shifted: false, ..second };
    let changed = (1..).find(|_| auto.decide(&calm).is_some()).expect("a change");
    assert_eq!((changed, limits_us(&auto)), (300 + 12, vec![21]));
}

// Does a mix count by the time for which it lasts, not by the time for which it was measured?
#[test]
fn mixes_count_equally() {
    let both = |seconds| {
        let [first, second] = alternating(seconds);
        let mut auto = auto(100);
        for (measured, decisions) in [(&first, 3), (&second, 2), (&first, 1)] {
            (0..decisions).for_each(|_| drop(auto.decide(measured).cloned()));
        }
        auto.current.ladders
    };
    assert_eq!([both([1, 10]), both([10, 1])], [both([1, 1]), both([1, 1])]);
    // A clock may measure nothing. Then the requests still count.
    let [first, second] = alternating([1, 1]).map(|mix| Measured { busy_workers: 0.0, ..mix });
    let mut auto = auto(100);
    let last =
        [&first, &first, &first, &second, &second, &first].map(|mix| (auto.decide(mix).is_some(), limits_us(&auto)));
    assert_eq!(last[5], (true, vec![4, 21]));
    let [of_class, other] = [&[(1_000, 1)], &[(2_000, 3)]].map(|bins| {
        let of_class = Box::new(std::array::from_fn(|class| times(if class == 1 { bins } else { &[] })));
        Measured { of_class: Some(of_class), ..measured(&times(bins)) }
    });
    let joined = of_class.stretched(2.0).with(&other);
    let bins = |times: &ServiceTimes| times.bins.iter().map(|(took, count)| (took.get(), *count)).collect::<Vec<_>>();
    let of_class = joined.of_class.expect("classes");
    assert_eq!(bins(&joined.times), [(1_000, 2), (2_000, 3)]);
    assert_eq!([bins(&of_class[0]), bins(&of_class[1])], [vec![], vec![(1_000, 2), (2_000, 3)]]);
}

// Is a mix no longer known if four others came since? Does a mix that was not left count as one
// that came back?
#[test]
fn few_mixes_are_remembered() {
    let of = |at: u32| {
        let (light, heavy) = (1_000 * 10_u64.pow(at), 100_000 * 10_u64.pow(at));
        Measured { has_shifted: true, ..measured(&times(&[(light, 50_000), (heavy, 50_000)])) }
    };
    let judge = |measured: &Measured| Decision::by(&auto(100).tuning, measured);
    let mut mixes = Mixes::default();
    let mut came_back = |at| mixes.note(&of(at), &judge(&of(at)), judge).is_some();
    assert_eq!(
        [0, 0, 1, 0, 1, 0].map(&mut came_back),
        [false, false, false, false, true, true],
        "one second is chance"
    );
    assert_eq!([2, 2, 3, 3, 0, 4, 1].map(&mut came_back), [false, false, false, false, true, false, false]);
}

// If one of three mixes is forgotten, do the other two stay together until the second is forgotten?
#[test]
fn mixes_are_forgotten_one_by_one() {
    let of = |at: u32| measured(&times(&[(1_000 * 10_u64.pow(at), 50_000), (100_000 * 10_u64.pow(at), 50_000)]));
    let judge = |measured: &Measured| Decision::by(&auto(100).tuning, measured);
    let mut mixes = Mixes::default();
    let mut limits = |at, decisions| {
        let measured = Measured { has_shifted: true, ..of(at) };
        let decision = judge(&measured);
        (1..decisions).for_each(|_| drop(mixes.note(&measured, &decision, judge).cloned()));
        mixes.note(&measured, &decision, judge).map(|together| together.ladders.all.limits().count())
    };
    // The last decision of mix 2 is the second, that of mix 1 the 154th.
    assert_eq!([limits(2, 2), limits(0, 150), limits(1, 2), limits(0, 148)], [None, None, None, Some(3)]);
    assert_eq!([limits(0, 1), limits(0, 151), limits(0, 1)], [Some(2), Some(2), None]);
}

/// Number of changes in an hour of decisions. Each uses the last ten seconds of 100 requests a
/// second, with service times drawn in microseconds.
fn changes_in_an_hour(yield_ns: u64, mut draw_us: impl FnMut(&mut Xoshiro256PlusPlus) -> f64) -> usize {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut auto = auto(yield_ns);
    // Kept sorted, each service time with its second. To sort all of them for each decision would
    // take most of the test's time.
    let mut recent: Vec<(Nanos, usize)> = Vec::new();
    let changes = (0..3_600).filter(|second| {
        recent.retain(|(_, drawn_in)| drawn_in + 10 > *second);
        recent.extend((0..100).map(|_| (Nanos::new((draw_us(&mut random) * 1e3) as u64), *second)));
        recent.sort();
        decide(&mut auto, &ServiceTimes::new(recent.iter().map(|(time, _)| (*time, 1)))).is_some()
    });
    changes.count()
}

// Is the choice stable if two choices are equally good? Method: an hour of samples at each
// boundary. If three decisions in a row were always enough, there would be 220, 132, 214, 245, 211
// and 326 changes.
#[test]
fn chance_does_not_change_the_choice_all_the_time() {
    let lognormal = |mean: f64, variation: f64| LogNormal::from_mean_cv(mean, variation).expect("a spread");
    let exponential = Exp::new(0.5).expect("a rate");
    let (light, near_one, heavy) = (lognormal(0.5, 0.5), lognormal(10.0, 1.0), lognormal(10.0, 3.0));
    let pareto = Pareto::new(1.0, 1.1).expect("a shape");
    let rare = |random: &mut Xoshiro256PlusPlus, share: f64| random.random::<f64>() < share;
    for (bound, changes) in [
        ("alike or two classes", changes_in_an_hour(100, |random| if rare(random, 0.001) { 500.0 } else { 10.0 })),
        (
            "a yield of 0.6 light requests",
            changes_in_an_hour(350, |random| if rare(random, 0.01) { 500.0 } else { light.sample(random) }),
        ),
        ("requests of 20 yields", changes_in_an_hour(100, |random| exponential.sample(random))),
        ("a tail that is hardly heavy", changes_in_an_hour(100, |random| near_one.sample(random))),
        ("limits of a heavy tail", changes_in_an_hour(100, |random| heavy.sample(random))),
        ("limits of a power law", changes_in_an_hour(100, |random| pareto.sample(random))),
    ] {
        assert!((1..=6).contains(&changes), "{bound}: {changes} changes in an hour");
    }
}
