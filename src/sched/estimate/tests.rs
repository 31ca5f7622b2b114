use super::*;
use rand::SeedableRng;
use rand_distr::{Distribution, Exp, LogNormal, Pareto};
use rand_xoshiro::Xoshiro256PlusPlus;

fn bimodal(light: (u64, u64), heavy: (u64, u64)) -> ServiceTimes {
    ServiceTimes::new([light, heavy].map(|(ns, count)| (Nanos::new(ns), count)))
}

fn drawn(distribution: impl Distribution<f64>) -> ServiceTimes {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    ServiceTimes::new((0..30_000).map(|_| (Nanos::new(distribution.sample(&mut random) as u64), 1)))
}

#[test]
fn a_gap_stands_between_two_humps() {
    let gap = bimodal((500, 19_900), (500_000, 100)).widest_gap().expect("extreme bimodal has one");
    assert!(gap.below >= Nanos::new(500) && gap.below < Nanos::new(1_000), "{gap:?}");
    assert!(gap.above <= Nanos::new(500_000) && gap.above > Nanos::new(250_000), "{gap:?}");
    // Fifty requests of 600 ns are too many for the inside of a gap above which there are a
    // hundred. So the gap begins above them.
    let three = [(500, 100), (600, 50), (500_000, 100)].map(|(ns, count)| (Nanos::new(ns), count));
    let between = Gap { below: Nanos::new(725), above: Nanos::new(370_728) };
    assert_eq!(ServiceTimes::new(three).widest_gap(), Some(between));
    let interrupted = [(500, 19_900), (4_000, 5), (15_000, 5), (60_000, 5), (500_000, 100)];
    for (times, has_gap, what) in [
        (bimodal((1_000, 5_000), (100_000, 5_000)), true, "high bimodal"),
        (bimodal((500, 9_000), (5_500, 1_000)), true, "a factor of eleven"),
        (ServiceTimes::new(interrupted.map(|(ns, count)| (Nanos::new(ns), count))), true, "a few interruptions"),
        (bimodal((1_000, 50_000), (1_100, 50_000)), false, "alike"),
        (bimodal((20_000, 4_400), (5_700, 4_400)), false, "too narrow to matter"),
        (bimodal((500, 9_000), (2_100, 9_000)), true, "five buckets"),
        (bimodal((500, 9_000), (2_000, 9_000)), false, "four buckets"),
        (bimodal((500, 20_000), (500_000, 20)), true, "no outliers"),
        (bimodal((500, 20_000), (500_000, 19)), false, "outliers"),
        (bimodal((950, 4_000), (10_000, 20)), true, "a twentieth of the time"),
        (bimodal((950, 4_001), (10_000, 20)), false, "less of the time"),
        (ServiceTimes::default(), false, "nothing"),
        (drawn(Exp::new(1.0 / 10_000.0).expect("a rate")), false, "one hump: exponential"),
        (drawn(LogNormal::new(9.0, 2.0).expect("a spread")), false, "one hump: lognormal"),
        (drawn(Pareto::new(1_000.0, 1.2).expect("a shape")), false, "one hump: Pareto"),
    ] {
        assert_eq!(times.widest_gap().is_some(), has_gap, "{what}");
    }
}

// If the time outside the handler is equal for light and heavy requests, does it raise the light
// ones' share of the time?
#[test]
fn the_time_beside_handlers_is_work_too() {
    let free = bimodal((500, 99_500), (500_000, 500));
    let charged = ServiceTimes { beside: Nanos::new(2_680), ..free.clone() };
    let budget = Nanos::new(5_000);
    // Of each request's time, 3.18 us (light) or 5 us (heavy) are within the budget; a request
    // takes 5.68 us on average.
    assert!((charged.share_within(budget) - 0.5617).abs() < 0.0001, "{}", charged.share_within(budget));
    assert_eq!((free.mean(), charged.mean()), (Nanos::new(2_997), Nanos::new(5_677)));
    assert_eq!(ServiceTimes { beside: budget, ..ServiceTimes::default() }.mean(), Nanos::ZERO);
    assert_eq!(softly_reserved_workers(&charged, budget, 0.7 * 14.0, 14), 2, "what handlers take of it");
    assert_eq!(free.widest_gap(), charged.widest_gap(), "a gap is of the time in the handler");
    // Heavy requests with a tenth of the time in handlers, and a fiftieth of the workers' time.
    let few = bimodal((500, 100_000), (50_000, 100));
    assert!(few.widest_gap().is_some() && ServiceTimes { beside: Nanos::new(2_680), ..few }.widest_gap().is_none());
}
