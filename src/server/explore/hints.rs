//! Is each client that is not served told when to try again, by what waits then? Method: a worker
//! in virtual time that is held for 300 us, with limits for what has not begun and what has.

use super::scenario::{Event, Scenario};
use super::server::explore_service;
use crate::fate::Status;
use crate::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, Unserved, checkpoint};
use crate::sched::Tuning;
use crate::sched::overload::{WaitBounds, WaitLimits};
use crate::time::Nanos;
use crate::time::clock::virtual_time;
use std::sync::Mutex;

const US: fn(u64) -> Nanos = Nanos::from_micros;

/// What each client is told, by the first byte of its request.
#[derive(Default)]
struct Told(Mutex<Vec<(u8, Status, Nanos)>>);

impl Handler for Told {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let admitted = Admitted::default();
        Ok(if arrival.bytes()[0] == b'd' { admitted.deadline(US(100)) } else { admitted })
    }

    async fn handle(&self, request: Request<'_>, _: &mut Reply<'_>) {
        match request.bytes()[0] {
            b'h' => virtual_time::pass(US(300)),
            b'y' => {
                virtual_time::pass(US(20));
                checkpoint().await;
            }
            _ => {}
        }
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, _: &mut Reply<'_>) {
        let Unserved { status, retry_after } = unserved;
        self.0.lock().expect("no panic").push((request.bytes()[0], status, retry_after));
    }
}

#[test]
fn each_client_is_told_when_to_try_again() {
    let of = |at: u64, kind: u8| (US(20_000 + at), Event::Datagram(0, vec![kind]));
    // By 20 ms there is time for answers. The worker begins what waited when it ends the long one,
    // at 310 us.
    let events = vec![of(10, b'h'), of(20, b'w'), of(190, b'd'), of(300, b'y'), of(301, b'h'), of(330, b'x')];
    let waits = WaitLimits {
        fresh: WaitBounds::always(US(200), US(2_000)),
        interrupted: WaitBounds::always(US(250), US(250)),
        ..WaitLimits::NONE
    };
    let policy = Tuning::new(1, US(5)).policy("levels");
    let told = Told::default();
    explore_service(
        &Scenario { waits, stamps: true, ..Scenario::plain(policy, 20, events) },
        &told,
        &|| None,
        None,
        None,
    )
    .expect("the accounts balance");
    let told = told.0.into_inner().expect("no panic");
    let hint = |kind| told.iter().find(|(told, ..)| *told == kind).map(|(_, status, hint)| (*status, *hint));
    assert_eq!(hint(b'w'), Some((Status::ShedWaited, US(200))), "the bound of what has not begun: {told:?}");
    assert_eq!(hint(b'd'), Some((Status::ShedExpired, US(120))), "as long as it waited itself: {told:?}");
    assert_eq!(hint(b'x'), Some((Status::ShedWaited, US(200))), "{told:?}");
    assert_eq!(hint(b'y'), Some((Status::ShedExpired, US(250))), "the bound of what has begun: {told:?}");
}
