//! Requests at a fixed rate that continue while servers end and start, and the results of all of
//! them.

use super::client::{Client, message};
use super::{EndOf, await_until};
use forebay::inside::wire::{Header, Status};
use forebay::time::{Nanos, clock};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The number of clients, and so of flows: enough for every socket of a server.
const FLOWS: usize = 16;
/// The longest wait for the next answer while some are missing.
const NEXT_ANSWER_WITHIN: Nanos = Nanos::from_secs(5);
/// The most unanswered requests: half of what one socket holds. If the host does not run the
/// server, the stream waits for it instead of filling its sockets. At 20,000/s this is a pause of a
/// fifth of a second.
const UNANSWERED_MAX: u64 = 4_000;
/// Requests leave in groups, one for each of these intervals.
const GROUP_EVERY: Nanos = Nanos::from_millis(1);

/// The results of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Became {
    pub sent: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Answers beyond the first.
    pub twice: u64,
    /// Answers with another status than "ok": shed or refused.
    pub unserved: u64,
    /// The most that were unanswered at once.
    pub unanswered_max: u64,
    /// From the first to the last request.
    pub took: Nanos,
}

impl Became {
    pub fn lost(&self) -> u64 {
        self.sent - self.answered - self.unserved
    }
}

/// Sends requests without cost, `per_second` to the server. Before each group it asks `more`
/// whether to continue after this many.
fn stream(per_second: u64, server: SocketAddr, mut more: impl FnMut(u64) -> bool) -> Became {
    let mut became = Became::default();
    let mut answered = Vec::new();
    let group = (per_second * GROUP_EVERY.get()).div_ceil(1_000_000_000);
    let clients: Vec<Client> = (0..FLOWS).map(|_| Client::new(server)).inspect(enlarge).collect();
    let begin = clock::now();
    while more(became.sent) {
        became.unanswered_max = became.unanswered_max.max(became.lost());
        if became.lost() > UNANSWERED_MAX && !await_answers(&clients, &mut answered, &mut became, UNANSWERED_MAX) {
            // With this many lost, further requests would show nothing new.
            break;
        }
        for _ in 0..group {
            let header = Header::request(became.sent, 0, Nanos::ZERO);
            clients[became.sent as usize % FLOWS].send(&message(&header, b"payload"));
            became.sent += 1;
        }
        answered.resize(became.sent as usize, false);
        take(&clients, &mut answered, &mut became);
        let next = begin.plus(Nanos::new(became.sent * 1_000_000_000 / per_second));
        thread::sleep(next.minus(clock::now()).into());
    }
    became.took = clock::now().minus(begin);
    await_answers(&clients, &mut answered, &mut became, 0);
    became
}

/// Streams to `server` while `body` runs, and until `total` are sent. Each request must be answered
/// once. `body` may wait until a number of them are sent.
#[track_caller]
pub fn answered_while<T>(
    per_second: u64,
    total: u64,
    server: SocketAddr,
    body: impl FnOnce(&dyn Fn(u64)) -> T,
) -> (Became, T) {
    let (over, progress) = (AtomicBool::new(false), AtomicU64::new(0));
    let (became, result) = thread::scope(|scope| {
        let guard = EndOf(&over);
        let more = |sent| {
            progress.store(sent, Ordering::SeqCst);
            sent < total || !over.load(Ordering::SeqCst)
        };
        let streaming = scope.spawn(move || stream(per_second, server, more));
        let result = body(&|sent| await_until(|| progress.load(Ordering::SeqCst) >= sent, "the stream stands still"));
        drop(guard);
        (streaming.join().expect("no panic"), result)
    });
    assert_eq!((became.lost(), became.unserved, became.twice), (0, 0, 0), "{became:?}");
    (became, result)
}

/// Takes answers until at most `left` are missing; false if none comes for [`NEXT_ANSWER_WITHIN`].
fn await_answers(clients: &[Client], answered: &mut [bool], became: &mut Became, left: u64) -> bool {
    let mut last = clock::now();
    while became.lost() > left && clock::now().minus(last) < NEXT_ANSWER_WITHIN {
        let before = became.lost();
        take(clients, answered, became);
        if became.lost() < before {
            last = clock::now();
        }
        thread::sleep(GROUP_EVERY.into());
    }
    became.lost() <= left
}

/// Takes the answers that have come.
fn take(clients: &[Client], answered: &mut [bool], became: &mut Became) {
    for client in clients {
        while let Some(answer) = client.receive_within(Nanos::ZERO) {
            let first = !std::mem::replace(&mut answered[answer.header.id as usize], true);
            match (first, answer.header.status) {
                (false, _) => became.twice += 1,
                (true, Status::Ok) => became.answered += 1,
                (true, _) => became.unserved += 1,
            }
        }
    }
}

/// A buffer for the answers of a second, because this process may have to wait for a CPU.
fn enlarge(client: &Client) {
    socket2::SockRef::from(&client.socket).set_recv_buffer_size(4 << 20).expect("a size");
}
