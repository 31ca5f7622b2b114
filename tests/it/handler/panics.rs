//! Does a panic of the user's code end one request at most, in every method of `Service` and of
//! `Handler`, and in every `Drop`? Method: the first byte of a request says where the panic comes.
//! After each one, the next request is answered; at the end, all fates add up.

use forebay::fate::Refused;
use forebay::handler::{Served, Teller};
use forebay::server::ServeError;
use forebay::{Event, Out, Service};
use std::future::Future;
use std::panic::resume_unwind;
use support::prelude::*;

/// Panics when it is dropped, unless another panic drops it.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panics();
        }
    }
}

fn panics() -> ! {
    resume_unwind(Box::new("a panic that was asked for"))
}

/// Panics whenever it is dropped, also one that no request has brought.
struct Ticket(Bomb);

/// Whether the next default of a ticket panics, and the next state of a request.
static NEXT_PANICS: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
const DEFAULT: usize = 0;
const STATE: usize = 1;

fn may_panic(what: usize) {
    if NEXT_PANICS[what].swap(false, Ordering::SeqCst) {
        panics();
    }
}

impl Default for Ticket {
    fn default() -> Ticket {
        may_panic(DEFAULT);
        Ticket(Bomb)
    }
}

/// Where a request panics, and how it ends.
const CASES: [(u8, &str, &str); 13] = [
    (b'a', "admit", "failed"),
    (b'A', "the drop of what admit panics with", "failed"),
    (b'c', "the call of handle", "failed"),
    (b'h', "the first poll", "failed"),
    (b'H', "a later poll", "failed"),
    (b'p', "the drop of what handle panics with", "failed"),
    (b'f', "a drop at the end of the future", "failed"),
    (b'w', "the drop of a future that waits", "shed_expired"),
    (b'r', "refuse", "refused"),
    (b's', "seal", "failed"),
    (b'd', "the default of a ticket", "answered"),
    (b'o', "the drop of a ticket", "answered"),
    (b'b', "the drop of a state", "answered"),
];
/// The same, in a service without shards, where each request has a state of its own.
const WITHOUT_SHARDS: [(u8, &str, &str); 2] = [(b'b', "the drop of its state", "failed"), (b'S', "shard", "failed")];
/// The same, in a service with shards. Each request is answered, and makes an event that fails.
const WITH_SHARDS: [(u8, &str); 3] = [(b't', "a timer"), (b'm', "a message"), (b'M', "the drop of a message")];

fn admit(arrival: &Arrival<'_>) -> Result<Admitted<Ticket>, Rejected<Ticket>> {
    let admitted = || Admitted::new(Ticket(Bomb));
    match arrival.bytes()[0] {
        b'a' => panics(),
        b'A' => resume_unwind(Box::new(Bomb)),
        b'r' => Err(Rejected::Refused(admitted(), Refused::Other)),
        b'w' => Ok(admitted().deadline(Nanos::from_millis(20))),
        b'S' => {
            NEXT_PANICS[STATE].store(true, Ordering::SeqCst);
            Ok(admitted())
        }
        b'l' => Ok(admitted().shard(1)),
        _ => Ok(admitted()),
    }
}

/// Serves a request whose first byte is `what`.
async fn serve(what: u8) {
    match what {
        b'h' => panics(),
        b'H' => {
            checkpoint().await;
            panics();
        }
        b'p' => resume_unwind(Box::new(Bomb)),
        b'f' => drop(Bomb),
        b'w' => {
            let _held = Bomb;
            sleep(GIVE_UP_AFTER).await;
        }
        b'd' => NEXT_PANICS[DEFAULT].store(true, Ordering::SeqCst),
        _ => checkpoint().await,
    }
}

fn seal(what: u8) {
    if what == b's' {
        panics();
    }
}

struct Plain;

impl Handler for Plain {
    type Ticket = Ticket;

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Ticket>, Rejected<Ticket>> {
        admit(arrival)
    }

    fn handle(&self, request: Request<'_, Ticket>, reply: &mut Reply<'_>) -> impl Future<Output = ()> + Send {
        let what = request.bytes()[0];
        if what == b'c' {
            panics();
        }
        async move {
            serve(what).await;
            reply.put(&[what]).expect("as long as the request");
        }
    }

    fn refuse(&self, _: Request<'_, Ticket>, _: Unserved, _: &mut Reply<'_>) {
        panics();
    }

    fn seal(&self, request: Request<'_, Ticket>, _: &Served, _: &mut [u8]) {
        seal(request.bytes()[0]);
    }
}

struct Sharded<const SHARDS: usize>;

impl<const SHARDS: usize> Service for Sharded<SHARDS> {
    type Ticket = Ticket;
    type Shard = Option<Bomb>;
    type Message = Option<Bomb>;

    const SHARDS: usize = SHARDS;
    const HEARS_STOP: bool = true;

    fn joins(_: &[u8], _: &[u8]) -> bool {
        panics();
    }

    fn shard(&self, number: usize) -> Option<Bomb> {
        may_panic(STATE);
        // Those of a service panic when the server ends.
        (number > 0).then(|| Bomb)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<Ticket>, Rejected<Ticket>> {
        admit(arrival)
    }

    fn handle(
        &self,
        state: &mut Option<Bomb>,
        event: Event<'_, Ticket, Option<Bomb>>,
        out: &mut Out<'_, Option<Bomb>>,
    ) -> impl Future<Output = ()> + Send {
        let what = if let Event::Datagram(request) = &event { request.bytes()[0] } else { 0 };
        if what == b'c' {
            panics();
        }
        async move {
            match event {
                Event::Datagram(_) => {}
                Event::Message(Some(bomb)) => return drop(bomb),
                _ => panics(),
            }
            let told = match what {
                b'b' if SHARDS == 0 => {
                    *state = Some(Bomb);
                    Ok(())
                }
                b't' => out.at(1, clock::instant(clock::now())).map_err(drop),
                b'm' => out.teller().tell(out.shard(), None).map_err(drop),
                b'M' | b'l' => out.teller().tell(out.shard(), Some(Bomb)).map_err(drop),
                _ => Ok(()),
            };
            told.expect("there is room");
            if what == b'l' {
                // The message waits until the server ends.
                sleep(GIVE_UP_AFTER).await;
            }
            serve(what).await;
            out.reply().put(&[what]).expect("as long as the request");
        }
    }

    fn refuse(&self, _: Request<'_, Ticket>, _: Unserved, _: &mut Reply<'_>) {
        panics();
    }

    fn seal(&self, request: Request<'_, Ticket>, _: &Served, _: &mut [u8]) {
        seal(request.bytes()[0]);
    }
}

fn server<H: Service + Send + 'static>(service: H) -> Running {
    Running::on(bound(&[("io", "gro"), ("workers", "2"), ("drain-timeout", "2s")]), service)
}

/// The answer to a request that panics nowhere but in the drop of its ticket.
fn answer(server: &Running) -> Option<[u8; 1]> {
    let (client, mut answer) = (client(server), [0]);
    client.send(b"o").expect("the server's port is open");
    client.recv(&mut answer).is_ok().then_some(answer)
}

/// Sends a request for each of `cases`, and one after each. Returns what they come to.
fn outlives<'c>(server: &Running, cases: impl IntoIterator<Item = &'c (u8, &'c str, &'c str)>) -> Fates {
    let mut expected = Fates::default();
    for (what, place, fate) in cases {
        client(server).send(&[*what]).expect("the server's port is open");
        server.quiescent(expected.received + 1);
        assert_eq!(answer(server), Some(*b"o"), "after a panic in {place}: {:?}", fates(&latency(server.admin)));
        let count = match *fate {
            "answered" => &mut expected.answered,
            "failed" => &mut expected.failed,
            "refused" => &mut expected.refused,
            _ => &mut expected.shed_expired,
        };
        *count += 1;
        expected.answered += 1;
        expected.received += 2;
        assert_eq!(server.quiescent(expected.received), expected, "after a panic in {place}");
    }
    expected
}

#[test]
fn a_panic_anywhere_ends_one_request() {
    let plain = server(Plain);
    let expected = outlives(&plain, &CASES);
    plain.ends_as(expected, "a handler");

    let fresh = server(Sharded::<0>);
    let other = |(what, ..): &&(u8, &str, &str)| WITHOUT_SHARDS.iter().all(|(own, ..)| own != what);
    let expected = outlives(&fresh, CASES.iter().filter(other).chain(&WITHOUT_SHARDS));
    fresh.ends_as(expected, "a service without shards");

    let sharded = server(Sharded::<2>);
    let mut expected = outlives(&sharded, &CASES);
    for (what, place) in WITH_SHARDS {
        assert_eq!(ask(&sharded, &char::from(what).to_string()).as_bytes(), [what]);
        assert_eq!(answer(&sharded), Some(*b"o"), "after a panic in {place}");
        (expected.received, expected.answered, expected.failed) =
            (expected.received + 3, expected.answered + 2, expected.failed + 1);
        assert_eq!(sharded.quiescent(expected.received), expected, "after a panic in {place}");
    }
    // Results that nothing wants: of work that ends before its handle is gone, or after, and of
    // what waits on.
    let has_ended = || format!("{:?}", sharded.spawner).contains("under_way: 0,");
    let kept = sharded.spawner.spawn(async { Bomb }).expect("there is room");
    await_until(has_ended, "the work does not end");
    drop(kept);
    let gone = Arc::new(AtomicBool::new(false));
    let is_gone = Arc::clone(&gone);
    let work = async move {
        while !is_gone.load(Ordering::SeqCst) {
            sleep(Nanos::from_millis(1)).await;
        }
        Bomb
    };
    drop(sharded.spawner.spawn(work).expect("there is room"));
    gone.store(true, Ordering::SeqCst);
    await_until(has_ended, "the work does not end");
    drop(sharded.spawner.spawn(async { (Bomb, std::future::pending::<()>().await) }).expect("there is room"));
    assert_eq!(answer(&sharded), Some(*b"o"), "after a panic in work that was spawned");
    (expected.received, expected.answered) = (expected.received + 1, expected.answered + 1);
    // What cannot be joined comes apart.
    let train = Client { socket: client(&sharded) };
    train.send_train(b"oo", 1);
    assert_eq!([(); 2].map(|()| receive(&train.socket)), ["o", "o"], "after a panic in joins");
    (expected.received, expected.answered) = (expected.received + 2, expected.answered + 2);
    assert_eq!(sharded.quiescent(expected.received), expected);
    // At the end: a shard that hears of the stop, and one whose message no event has brought. Then
    // the states and the tickets of all packets.
    client(&sharded).send(b"l").expect("the server's port is open");
    // The event for its message waits for its turn.
    await_until(|| fates(&latency(sharded.admin)).in_flight == 2, "it does not begin");
    let report = sharded.stop();
    (expected.received, expected.failed, expected.shed_draining) = (expected.received + 3, expected.failed + 1, 2);
    assert_eq!((report.totals.fates, report.packets_away), (expected, 0));
}

/// A service whose shards cannot be made.
struct Unmade;

impl Service for Unmade {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    fn shard(&self, _: usize) {
        resume_unwind(Box::new("no memory for it"))
    }

    async fn handle(&self, (): &mut (), _: Event<'_>, _: &mut Out<'_>) {}
}

/// A service that fails once its shards are made.
struct Unstarted;

impl Service for Unstarted {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    fn shard(&self, _: usize) {}

    fn started(&self, _: &Teller<Self::Message>) {
        resume_unwind(Box::new("no thread for it"))
    }

    async fn handle(&self, (): &mut (), _: Event<'_>, _: &mut Out<'_>) {}
}

#[test]
fn a_server_whose_shards_cannot_be_made_does_not_begin() {
    let Err(ServeError::Unavailable(said)) = bound(&[]).run(&Unmade) else { panic!("it serves") };
    assert_eq!(said, "the service cannot make a shard: it panicked: no memory for it");
    let Err(ServeError::Unavailable(said)) = bound(&[]).run(&Unstarted) else { panic!("it serves") };
    assert_eq!(said, "the service cannot make its start: it panicked: no thread for it");
}
