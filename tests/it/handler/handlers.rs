//! Is a reply that does not fit never sent? Does a cancelled token end what it should and nothing else? Is a panic
//! contained whatever it carries?
//! Method: small handlers of this file behind real sockets; replies and fates are counted.

use crate::support::prelude::*;
use forebay::handler::CancellationToken;
use forebay::wire::Served;
use std::io::Write;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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
            b"shortr" => {
                let _ = reply.put(&long);
                reply.clear();
                let _ = reply.put(b"short");
            }
            _ => _ = reply.put(request.bytes()),
        }
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8]).expect("there is room for one byte");
    }
}

/// Has too much to say of what it does not serve.
struct VerboseRefusal;

impl Handler for VerboseRefusal {
    type Ticket = ();

    async fn handle(&self, _: Request<'_>, _: &mut Reply<'_>) {
        panic!("this request asks for a panic");
    }

    fn refuse(&self, _: Request<'_>, _: Unserved, reply: &mut Reply<'_>) {
        let _ = reply.put(b"fits");
        let _ = reply.put(b"does not fit any more");
    }
}

// Is a reply that does not fit never sent, not even in part? It may be written in any way, and the request may have
// moved. Is it counted as failed, for its own reason?
#[test]
fn a_reply_that_does_not_fit_is_not_sent() {
    let failed = char::from(Status::Failed as u8).to_string();
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Verbose);
        for way in ["put   ", "write ", "byte  ", "first ", "moves ", "parts "] {
            assert_eq!(ask(&server, way), failed, "{policy}: {way}");
        }
        assert_eq!(ask(&server, "shortr"), "short", "{policy}: a reply that was emptied has room again");
        assert_eq!(ask(&server, "as long as the request"), "as long as the request", "{policy}");
        let expected = fates! { received: 8, answered: 2, failed: 6 };
        assert_eq!(server.quiescent(8), expected, "{policy}");
        assert_failed(&server, 0.0, 6.0);
    }
}

// Is a refusal that does not fit not sent either?
#[test]
fn a_refusal_that_does_not_fit_is_not_sent() {
    let server = Running::start(&[("workers", "1")], VerboseRefusal);
    let client = client(&server);
    client.send(b"panic").expect("sent");
    let expected = fates! { received: 1, failed: 1 };
    assert_eq!(server.quiescent(1), expected);
    assert_failed(&server, 1.0, 0.0);
    server.stop();
    client.set_nonblocking(true).expect("a socket");
    assert!(client.recv(&mut [0; 64]).is_err(), "the server sent what it had no room for");
}

fn assert_failed(server: &Running, panic: f64, overflow: f64) {
    for (reason, count) in [("panic", panic), ("overflow", overflow), ("cancelled", 0.0)] {
        assert_eq!(server.count("failed", reason), count, "{reason}");
    }
}

/// `run N` and `fork N` go on until `stop N`, or until all may finish; `late` is under a token that was cancelled before.
#[derive(Default)]
struct Jobs {
    tokens: [CancellationToken; 4],
    finish: AtomicBool,
    begun: AtomicUsize,
    gone: AtomicUsize,
}

struct Inside(Arc<Jobs>);

impl Inside {
    fn begin(jobs: &Arc<Jobs>) -> Inside {
        jobs.begun.fetch_add(1, Ordering::SeqCst);
        Inside(Arc::clone(jobs))
    }

    async fn work(&self) {
        while !self.0.finish.load(Ordering::SeqCst) {
            std::thread::sleep(Nanos::from_micros(100).into());
            checkpoint().await;
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.gone.fetch_add(1, Ordering::SeqCst);
    }
}

struct Cancelling(Arc<Jobs>);

impl Handler for Cancelling {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let jobs = &self.0;
        let text = str::from_utf8(request.bytes()).unwrap_or_default();
        let (verb, number) = text.split_once(' ').unwrap_or_default();
        let token = &jobs.tokens[number.trim().parse::<usize>().unwrap_or(0)];
        let done = match verb {
            "stop" => {
                token.cancel();
                Some(())
            }
            "run" => token.run_until_cancelled(async { Inside::begin(jobs).work().await }).await,
            "fork" => {
                let parts = async {
                    let parts = [0; 3].map(|_| {
                        let jobs = Arc::clone(jobs);
                        fork(async move { Inside::begin(&jobs).work().await })
                    });
                    for part in parts {
                        part.await;
                    }
                };
                token.run_until_cancelled(parts).await
            }
            _ => {
                token.cancel();
                token.child().run_until_cancelled(async { Inside::begin(jobs).work().await }).await
            }
        };
        reply.put(if done.is_some() { b"done" } else { b"gone" }).expect("no request is shorter");
    }
}

// Does a token end what runs under it, its parts too, before it begins or while it runs, and leave the rest alone?
#[test]
fn a_token_cancels_its_own_work_alone() {
    // Under the other policies a second request may wait for a worker that is busy. Five workers are busy, so one more
    // must be free.
    for policy in policies().filter(|policy| !matches!(*policy, "isolated" | "pools" | "reserve")) {
        let jobs = Arc::new(Jobs::default());
        let server = Running::start(&[("policy", policy), ("workers", "8")], Cancelling(Arc::clone(&jobs)));
        let begun = || jobs.begun.load(Ordering::SeqCst);
        let clients = ["run 1", "run 2", "fork 3"].map(|question| {
            let (client, before) = (client(&server), begun());
            client.send(format!("{question}    ").as_bytes()).expect("sent");
            await_until(|| begun() > before, "it does not begin");
            client
        });
        assert_eq!(ask(&server, "stop 1  "), "done");
        assert_eq!(receive(&clients[0]), "gone", "{policy}");
        assert_eq!(ask(&server, "stop 3  "), "done");
        assert_eq!(receive(&clients[2]), "gone", "{policy}");
        let before = begun();
        assert_eq!(ask(&server, "late 0"), "gone", "{policy}");
        assert_eq!(begun(), before, "it began after it was cancelled");
        await_until(|| jobs.gone.load(Ordering::SeqCst) == before - 1, "more than the one that goes on is left");
        jobs.finish.store(true, Ordering::SeqCst);
        assert_eq!(receive(&clients[1]), "done", "{policy}: it was not cancelled");
        assert_eq!(jobs.gone.load(Ordering::SeqCst), before);
        let fates = server.quiescent(6);
        assert_eq!(fates, fates! { received: 6, answered: 6 }, "{policy}");
        assert_eq!(server.stop().packets_away, 0, "{policy}");
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

// Does a server survive more panics than it has places for requests (641 for each worker), wherever they happen? Their
// payloads panic in their turn when they are dropped. Method: more of each kind, one after the other, so that each kind
// alone would use up what it leaked.
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
        let expected = fates! { received, answered, failed, stalled: count };
        assert_eq!(server.quiescent(received), expected, "{policy}");
        assert_eq!(server.stop().packets_away, 0, "{policy}");
    }
}
