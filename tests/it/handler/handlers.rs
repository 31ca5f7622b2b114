//! Is a reply that does not fit never sent? Is a panic contained whatever it carries?
//! Method: small handlers of this file behind real sockets; replies and fates are counted.

use crate::support::prelude::*;
use forebay::wire::Served;
use std::panic::resume_unwind;

/// Writes more than there is room for, in the way that the request says; the error is ignored, as careless code does.
struct Verbose;

impl Handler for Verbose {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let long = [b'x'; 65];
        match request.bytes() {
            b"put   " => _ = reply.put(&long),
            b"write " => _ = write!(reply, "{}-{}", 1_234, 5_678),
            b"byte  " => long.iter().for_each(|byte| _ = reply.put(&[*byte])),
            b"first " => {
                let _ = reply.put(&long);
                let _ = reply.put(b"fits");
            }
            b"moves " => {
                let _ = reply.put(&long);
                checkpoint().await;
                hop(1).await;
            }
            b"parts " => {
                let part = fork(async { [b'x'; 65] });
                checkpoint().await;
                let _ = reply.put(&part.await);
            }
            b"panic " => resume_unwind(Box::new(())),
            b"shortr" => {
                let _ = reply.put(&long);
                reply.clear();
                let _ = reply.put(b"short");
            }
            _ => _ = reply.put(request.bytes()),
        }
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        if request.bytes() == b"panic " {
            let _ = reply.put(b"fits");
            let _ = reply.put(b"does not fit any more");
        } else {
            reply.put(&[unserved.status as u8]).expect("there is room for one byte");
        }
    }
}

// Not even in part, in whatever way it is written, also by a request that has moved.
#[test]
fn what_does_not_fit_is_not_sent() {
    let failed = char::from(Status::Failed as u8).to_string();
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Verbose);
        for way in ["put   ", "write ", "byte  ", "first ", "moves ", "parts "] {
            assert_eq!(ask(&server, way), failed, "{policy}: {way}");
        }
        assert_eq!(ask(&server, "shortr"), "short", "{policy}: a reply that was emptied has room again");
        assert_eq!(ask(&server, "as long as the request"), "as long as the request", "{policy}");
        let silent = client(&server);
        silent.send(b"panic ").expect("sent");
        assert_eq!(server.quiescent(9), fates! { received: 9, answered: 2, failed: 7 }, "{policy}");
        for (reason, count) in [("panic", 1.0), ("overflow", 6.0)] {
            assert_eq!(server.count("failed", reason), count, "{reason}");
        }
        server.stop();
        silent.set_nonblocking(true).expect("a socket");
        assert!(silent.recv(&mut [0; 64]).is_err(), "{policy}: the server sent what it had no room for");
    }
}

/// Panics when it is dropped, with another of its kind, so many times.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            blow(Bomb(self.0 - 1));
        }
    }
}

/// Panics, without a word on standard error.
fn blow(bomb: Bomb) -> ! {
    resume_unwind(Box::new(bomb))
}

/// Panics where the request says, with what panics when it is dropped.
struct Bombs;

impl Handler for Bombs {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        if arrival.bytes() == b"admit " {
            blow(Bomb(3));
        }
        Ok(Admitted::default())
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        match request.bytes() {
            b"handle" | b"refuse" => blow(Bomb(3)),
            // Under `ondemand` and `hybrid` it has moved by then, if others wait; under all it is in its second poll.
            b"later " => {
                hop(1).await;
                blow(Bomb(3));
            }
            b"part  " => {
                let part = fork(async { blow(Bomb(3)) });
                checkpoint().await;
                part.await;
            }
            // It waits, parked, for a part that goes on for a while before it panics.
            b"parked" => {
                let part = fork(async {
                    for _ in 0..3 {
                        hop(1).await;
                    }
                    blow(Bomb(3));
                });
                part.await;
            }
            b"result" => {
                let part = fork(async { Bomb(3) });
                checkpoint().await;
                // Dropped without a look at what it gave.
                drop(part);
            }
            b"held  " => {
                let _bomb = Bomb(3);
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        reply.put(b"fine").expect("no request is shorter");
    }

    fn refuse(&self, request: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        if request.bytes() == b"refuse" {
            blow(Bomb(3));
        }
        reply.put(&[unserved.status as u8]).expect("there is room for one byte");
    }

    fn seal(&self, request: Request<'_>, _: &Served, _: &mut [u8]) {
        if request.bytes() == b"seal  " {
            blow(Bomb(3));
        }
    }
}

// More of each kind than there are places for requests (641 for each worker). Payloads panic when they are dropped.
#[test]
fn panics_use_nothing_up_whatever_they_carry() {
    const PANICS: u64 = 700;
    for (policy, workers, count) in [("global", "1", PANICS), ("ondemand", "1", PANICS), ("pools", "2", 2 * PANICS)] {
        let server = Running::start(&[("policy", policy), ("workers", workers)], Bombs);
        let client = client(&server);
        let [failed, stalled] = [Status::Failed, Status::Stalled].map(|status| char::from(status as u8).to_string());
        for (kind, said) in [
            ("handle", Some(&failed)),
            ("later ", Some(&failed)),
            ("part  ", Some(&failed)),
            ("parked", Some(&failed)),
            ("held  ", Some(&stalled)),
            ("result", Some(&"fine".to_owned())),
            ("admit ", None),
            ("refuse", None),
            ("seal  ", None),
        ] {
            for number in 0..count {
                client.send(kind.as_bytes()).expect("the server's port is open");
                match said {
                    Some(said) => assert_eq!(&receive(&client), said, "{policy}: {kind} {number}"),
                    // Few at once, so that all have room in the socket.
                    None if number % 50 == 0 => assert_eq!(ask(&server, "forebay"), "fine", "{policy}: {kind}"),
                    None => {}
                }
            }
            assert_eq!(ask(&server, "forebay"), "fine", "{policy}: after {kind}");
        }
        let answered = count + 9 + 3 * count.div_ceil(50);
        let (received, failed) = (answered + 8 * count, 7 * count);
        server.ends_as(fates! { received, answered, failed, stalled: count }, policy);
    }
}
