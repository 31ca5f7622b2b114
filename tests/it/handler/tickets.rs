//! Is a ticket that owns data dropped once, at the end of its request, whatever that end is?
//! Method: tickets count those of them that live, and requests end in all ways.

use forebay::fate::Refused;
use support::prelude::*;

/// Serves what the first byte of a request says.
#[derive(Clone, Default)]
struct Counting {
    /// One handle more for each ticket that lives.
    living: Arc<()>,
    admitted: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Kept {
    parsed: String,
    of: Option<(Arc<()>, Arc<AtomicUsize>)>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some((_, dropped)) = &self.of {
            dropped.fetch_add(1, Ordering::SeqCst);
            if self.parsed.starts_with('d') {
                std::panic::resume_unwind(Box::new("the ticket"));
            }
        }
    }
}

impl Handler for Counting {
    type Ticket = Kept;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Kept>, Rejected<Kept>> {
        let parsed = String::from_utf8_lossy(arrival.bytes()).into_owned();
        self.admitted.fetch_add(1, Ordering::SeqCst);
        let of = Some((Arc::clone(&self.living), Arc::clone(&self.dropped)));
        let admitted = Admitted::new(Kept { parsed, of });
        match arrival.bytes()[0] {
            b'r' => Err(Rejected::Refused(admitted, Refused::Other)),
            b'o' => Err(Rejected::OverRate(admitted)),
            b'i' => Err(Rejected::Ignored),
            b'e' => Ok(admitted.deadline(Nanos::from_millis(20))),
            b'x' => Ok(admitted.deadline(Nanos::ZERO)),
            b'f' => Ok(admitted.flow(7)),
            b'2' => Ok(admitted.identity(7)),
            _ => Ok(admitted),
        }
    }

    async fn handle(&self, request: Request<'_, Kept>, reply: &mut Reply<'_>) {
        match request.bytes()[0] {
            b'n' => return,
            b'p' => std::panic::resume_unwind(Box::new(())),
            b's' => std::future::pending().await,
            b'e' => sleep(Nanos::from_secs(60)).await,
            b'f' | b'2' => sleep(Nanos::from_millis(20)).await,
            b'w' => sleep(GIVE_UP_AFTER).await,
            _ => checkpoint().await,
        }
        reply.put(request.ticket().parsed.as_bytes()).expect("as long as the request");
    }

    fn refuse(&self, request: Request<'_, Kept>, _: Unserved, reply: &mut Reply<'_>) {
        reply.put(request.ticket().parsed.as_bytes()).expect("as long as the request");
    }
}

#[test]
fn a_ticket_is_dropped_once_at_the_end_of_its_request() {
    const ENDS: &[u8] = b"anpsrioexdf2";
    for policy in policies() {
        let handler = Counting::default();
        let settings = [&sized(policy, 4)[..], &[("drain-timeout", "50ms")]].concat();
        let server = Running::start(&settings, handler.clone());
        let client = client(&server);
        for number in 0..4 * ENDS.len() {
            client.send(&[ENDS[number % ENDS.len()], b'0']).expect("the server's port is open");
        }
        server.quiescent(4 * ENDS.len() as u64);
        // Packets that are kept for later requests keep no tickets.
        await_until(|| Arc::strong_count(&handler.living) == 2, policy);
        // One that waits when the server stops.
        client.send(b"w0").expect("the server's port is open");
        await_until(|| Arc::strong_count(&handler.living) == 3, policy);
        let report = server.stop();
        assert_eq!((report.totals.fates.shed_draining, report.packets_away), (1, 0), "{policy}");
        let [admitted, dropped] = [&handler.admitted, &handler.dropped].map(|count| count.load(Ordering::SeqCst));
        assert_eq!((admitted, Arc::strong_count(&handler.living)), (dropped, 1), "{policy}");
    }
}
