//! Does a request begin only where the cost that its handler declares leaves it time before its deadline? Method: a worker,
//! and two requests at once; the second one waits for the first, in virtual time.

use super::handler::{DEAR, HEADER, MAGIC, Scripted};
use super::run::Expirations;
use super::scenario::{Event, Scenario};
use super::server::explore;
use crate::fate::Expired;
use crate::lab::sim::Rest;
use crate::sched::Tuning;
use crate::sched::bounds::BATCH;
use crate::sched::overload::QueueBounds;
use crate::time::Nanos;

const US: fn(u64) -> Nanos = Nanos::from_micros;
/// The deadline of the second request, 40 us, in the unit of the header.
const DEADLINE: u8 = 10;

/// How a second request ends that waits for so many microseconds: whether it was served, and why it expired. If it is `old`,
/// it has waited in its socket for milliseconds before that.
fn ends(magic: u8, waits: usize, old: bool) -> (bool, Expirations) {
    // The second act is none, which takes a microsecond.
    let first = [vec![MAGIC, 0, 0, 1], vec![1; waits]].concat();
    let second = vec![magic, 0, DEADLINE, 2, 1];
    assert_eq!(second.len(), HEADER + 1);
    let scenario = Scenario {
        workers: 1,
        policy: Tuning::new(1, Nanos::ZERO).policy("isolated"),
        classified: false,
        rest: Rest::LOOKS,
        wake: Nanos::ZERO,
        step: Nanos::ZERO,
        packets: BATCH + 40,
        queued: 20,
        set_aside: [8, 8],
        socket_capacity: 20,
        unsent_every: 0,
        // A stamp that cannot be true counts as the longest wait that can.
        odd_every: old.into(),
        trains: false,
        events: [first, second].map(|bytes| (US(20_000), Event::Datagram(0, bytes))).into(),
        waits: QueueBounds::NONE,
        drain: US(1_000),
    };
    let handler = Scripted::default();
    let expired = explore(&scenario, &handler, None, None).expect("the accounts balance").expired;
    assert_eq!(handler.order.served(1), 1);
    (handler.order.served(2) == 1, expired)
}

#[test]
fn what_is_declared_to_take_too_long_does_not_begin() {
    let mut too_late = Expirations::default();
    too_late[Expired::TooLate as usize] = 1;
    assert_eq!(ends(DEAR, 24, false), (false, too_late), "it would end 184 us after its deadline");
    assert_eq!(ends(MAGIC, 24, false), (true, Expirations::default()), "nothing is known of its cost");
    assert_eq!(ends(DEAR, 19, false), (true, Expirations::default()), "half of the deadline is for waiting");
    let mut passed = Expirations::default();
    passed[Expired::Passed as usize] = 1;
    assert_eq!([DEAR, MAGIC].map(|magic| ends(magic, 50, false)), [(false, passed); 2], "the deadline is over");
    assert_eq!([DEAR, MAGIC].map(|magic| ends(magic, 1, true)), [(false, passed); 2], "it was over at admission");
}
