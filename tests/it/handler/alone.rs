//! Do requests without a shard run beside all others, though their service has shards?

use forebay::{Event, Out, Service};
use support::prelude::*;

/// Requests of its one shard ('s', 'f') and those alone ('w') wait for the gate. Others are
/// answered at once.
struct Mixed(Arc<AtomicBool>);

impl Service for Mixed {
    type Ticket = ();
    /// Requests that are alone have none.
    type Shard = Option<u64>;
    type Message = std::convert::Infallible;

    const SHARDS: usize = 1;

    fn shard(&self, number: usize) -> Option<u64> {
        (number < 1).then_some(0)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(match arrival.bytes()[0] {
            b's' => Admitted::new(()),
            b'f' => Admitted::new(()).flow(5).alone(),
            _ => Admitted::new(()).alone(),
        })
    }

    async fn handle(&self, state: &mut Option<u64>, event: Event<'_>, out: &mut Out<'_>) {
        let Event::Datagram(request) = event else { return };
        let kind = request.bytes()[0];
        assert_eq!(state.is_some(), matches!(kind, b's' | b'f'));
        match kind {
            b's' | b'f' | b'w' => {
                while !self.0.load(Ordering::SeqCst) {
                    sleep(Nanos::from_millis(1)).await;
                }
                *state = state.map(|count| count + 1);
                let _ = write!(out.reply(), "{}", state.unwrap_or_default());
            }
            b'p' => std::panic::resume_unwind(Box::new(())),
            _ => {
                assert!(out.at(1, clock::instant(clock::now())).is_err(), "it has no timers");
                assert!(out.spawn(std::future::pending()).is_err(), "it begins nothing");
                let _ = out.reply().put(b"alone");
            }
        }
    }
}

#[test]
fn requests_without_a_shard_take_no_turns() {
    for policy in ["auto", "isolated", "levels"] {
        let gate = Arc::new(AtomicBool::new(false));
        let server = Running::on(bound(&[("policy", policy), ("workers", "1")]), Mixed(Arc::clone(&gate)));
        let (client, other) = (client(&server), client(&server));
        // The second one of the shard is set aside.
        for kind in [b"s", b"f", b"w", b"w", b"p"] {
            client.send(kind).expect("the server's port is open");
        }
        await_until(|| fates(&latency(server.admin)).received == 5, "all come");
        assert_eq!(ask_from(&other, "a....."), "alone", "{policy}");
        gate.store(true, Ordering::SeqCst);
        let mut answers = [(); 4].map(|()| receive(&client));
        answers.sort();
        assert_eq!(answers, ["0", "0", "1", "2"], "{policy}");
        assert_eq!(server.quiescent(6), fates! { received: 6, answered: 5, failed: 1 }, "{policy}");
    }
}
