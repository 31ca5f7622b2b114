//! Is begun work given up that no client awaits any more?

use super::*;
use crate::fate::Expired;

// Does a worker give up begun work instead of resuming it? It does so after its deadline at once,
// and after the patience while the queues stand, but not before.
#[test]
fn a_worker_resumes_nothing_that_no_client_awaits() {
    let limits = auto(&[(10_000, 100)]);
    let mut shedding = Shedding::new(1, 1, 1_024, false);
    let begun = Stay { service: MS(1), ..Stay::new(MS(0)) };
    let begun = Stay { start_by: shedding.start_by(&begun, 0, &limits), ..begun };
    let expiring = Stay { expires_at: MS(50), deadline: Some(MS(50)), ..begun };
    let expiring = Stay { start_by: shedding.start_by(&expiring, 0, &limits), ..expiring };
    let passed = Some(Cause::Expired(Expired::Passed));
    assert_eq!(
        [49, 50].map(|now| shedding.on_resume(&expiring, 0, MS(now), &limits)).map(|why| why == passed),
        [false, true]
    );
    assert_eq!(shedding.on_resume(&begun, 0, MS(5_000), &limits), None, "the queues do not stand");
    // 100 ms for each of 20 in front, for as long as the interval.
    shedding.on_end(&Stay { in_line: 2, ..Stay::new(MS(0)) }, MS(100));
    let mut put = |now| shedding.on_put(&mut Stay::new(MS(now)), 0, MS(now), || (20, false), true, &limits);
    assert_eq!([200, 700].map(&mut put), [true, false]);
    assert!(shedding.continuations_stand());
    let late = Some(Cause::Expired(Expired::TooLate));
    assert_eq!([1_000, 1_001].map(|now| shedding.on_resume(&begun, 0, MS(now), &limits)), [None, late]);
    shedding.on_rest(MS(1_100));
    assert_eq!(shedding.on_resume(&begun, 0, MS(5_000), &limits), None, "the worker had nothing to do");
    // A fixed limit holds whether queues stand or not.
    let fixed = WaitLimits::unmeasured(MaxWait::For(MS(7)));
    let begun = Stay { start_by: shedding.start_by(&begun, 0, &fixed), ..begun };
    assert_eq!([7, 8].map(|now| shedding.on_resume(&begun, 0, MS(now), &fixed)), [None, late]);
}
