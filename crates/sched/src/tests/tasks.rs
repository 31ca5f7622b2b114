//! Where do tasks wait, and where do their workers look?

use super::*;

#[test]
fn tasks_stay_in_their_pool_and_give_way_after_their_slice() {
    let policy = &policies()[6];
    let [high, normal, background] = [0, 1, 2].map(Step::Queue);
    assert_eq!(search(policy, 0), [high, Step::Own, normal, Step::Steal(1), background]);
    assert_eq!(search(policy, 2), [Step::Queue(3), Step::Own, Step::Queue(4), Step::Queue(5)]);
    for class in 0..3_u8 {
        let running = |pool| RunningJob { class: Some(class), ..running(3, pool, 50) };
        let priority = usize::from(class);
        assert_eq!(policy.place(0, Event::Hopped(2, Some(class))), Place::Queue(6 + priority));
        assert_eq!(policy.place(1, Event::Yielded(running(1))), Place::Queue(3 + priority));
        assert_eq!(policy.goes_first(&running(1)), 3..4 + priority, "what is at least as urgent");
        assert_eq!((policy.server_of(3 + priority), policy.queues_of(1)), (1, 3..6));
    }
    assert_eq!(policy.ask_after(&running(0, 0, 20)), Some(Nanos::from_micros(30)));
    let mut local = Local::new(0, &policy.topology);
    let mut first = || policy.search(&mut local, NOW, &FIXED).next(&mut local, NOW, &FIXED);
    let firsts: Vec<Step> = (0..3 * 61 * 10).filter_map(|_| first()).collect();
    for place in [normal, background, Step::Steal(0)] {
        assert_eq!(firsts.iter().filter(|first| **first == place).count(), 10, "one search in 183 begins there");
    }
    assert_eq!(firsts.iter().filter(|first| **first == high).count(), 180 * 10);
    assert_eq!(policy.at_checkpoint(&running(0, 0, 49)), Verdict::Keep);
    assert_eq!(policy.at_checkpoint(&running(0, 0, 50)), Verdict::YieldIfWanted);
}
