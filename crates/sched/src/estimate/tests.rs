use super::*;

fn bimodal(light: (u64, u64), heavy: (u64, u64)) -> ServiceTimes {
    ServiceTimes::new([light, heavy].map(|(ns, count)| (Nanos::new(ns), count)))
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
}
