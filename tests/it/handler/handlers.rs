//! Is a reply that does not fit never sent? Is a panic caught wherever it happens?
//! `src/server/explore` checks that panics use nothing up. `continuation/poll.rs` of the runtime
//! checks which values panics may carry. Method: small handlers of this file behind real sockets;
//! replies and fates are counted.

use std::panic::resume_unwind;
use support::prelude::*;

/// Writes more than fits, at once or after a pause, and ignores the error as careless code does.
struct Verbose;

impl Handler for Verbose {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        if arrival.bytes() == b"admit " {
            resume_unwind(Box::new(()));
        }
        Ok(Admitted::default())
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let long = [b'x'; 65];
        match request.bytes() {
            b"put   " => _ = reply.put(&long),
            b"moves " => {
                let _ = reply.put(&long);
                checkpoint().await;
                hop(1).await;
            }
            b"panic " | b"refuse" => resume_unwind(Box::new(())),
            b"shortr" => {
                let _ = reply.put(&long);
                reply.clear();
                let _ = reply.put(b"short");
            }
            _ => _ = reply.put(request.bytes()),
        }
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        match request.bytes() {
            b"panic " => {
                let _ = reply.put(b"fits");
                let _ = reply.put(b"does not fit any more");
            }
            b"refuse" => resume_unwind(Box::new(())),
            _ => reply.put(&[unserved.status as u8]).expect("there is room for one byte"),
        }
    }
}

// Not even a part of a reply is sent, also if the request has moved to another worker.
#[test]
fn neither_what_does_not_fit_nor_what_panics_is_sent() {
    let failed = char::from(Status::Failed as u8).to_string();
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Verbose);
        for way in ["put   ", "moves "] {
            assert_eq!(ask(&server, way), failed, "{policy}: {way}");
        }
        assert_eq!(ask(&server, "shortr"), "short", "{policy}: a reply that was emptied has room again");
        assert_eq!(ask(&server, "as long as the request"), "as long as the request", "{policy}");
        let silent = client(&server);
        ["panic ", "refuse", "admit "].iter().for_each(|panics| assert!(silent.send(panics.as_bytes()).is_ok()));
        assert_eq!(server.quiescent(7), fates! { received: 7, answered: 2, failed: 5 }, "{policy}");
        for (reason, count) in [("panic", 3.0), ("overflow", 2.0)] {
            assert_eq!(server.count("failed", reason), count, "{reason}");
        }
        assert_eq!(server.stop().packets_away, 0, "{policy}");
        silent.set_nonblocking(true).expect("a socket");
        assert!(silent.recv(&mut [0; 64]).is_err(), "{policy}: the server sent what it had no room for");
    }
}
