//! Has each request the state of its shard to itself, and does the next one find what it left,
//! whatever becomes of it? Method: a service reads a count, lets others go on, and writes it.

use crate::support::prelude::*;
use forebay::{Event, Out, Service};

/// A request is its shard ('-' names none), what it does, and room for the answer. That is the
/// shard's number, and how many of its requests have come so far.
struct Counting;

impl Service for Counting {
    type Ticket = ();
    type Shard = (usize, u64);

    const SHARDS: usize = 3;

    fn shard(&self, number: usize) -> (usize, u64) {
        (number, 0)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(match arrival.bytes()[0] {
            b'-' => Admitted::new(()),
            shard => Admitted::new(()).shard(shard.into()),
        })
    }

    async fn handle(&self, (number, count): &mut (usize, u64), event: Event<'_>, out: &mut Out<'_>) {
        let Event::Datagram(request) = event else { return };
        let before = *count;
        match request.bytes()[1] {
            b'c' => {
                for _ in 0..5 {
                    thread::yield_now();
                    checkpoint().await;
                }
            }
            b'f' => fork(async { checkpoint().await }).await,
            b'o' => hop(1).await,
            b's' => sleep(Nanos::from_micros(100)).await,
            b'n' => std::future::pending().await,
            b'p' => std::panic::resume_unwind(Box::new(())),
            _ => {}
        }
        *count = before + 1;
        write!(out.reply(), "{number} {count}").expect("there is room");
    }
}

// Is no count lost where requests of a shard come side by side, and none counted of those that
// panic or stall?
#[test]
fn a_shard_has_one_request_at_a_time() {
    const EACH: u64 = 28;
    for policy in policies() {
        let server = Running::on(bound(&sized(policy, 4)), Counting);
        let clients = [(); 3].map(|()| client(&server));
        // 52 is number 1 of three shards.
        let shards = [(b'0', 0), (52, 1), (b'2', 2)];
        for number in 0..EACH as usize {
            for (shard, _) in shards {
                clients[number % 3].send(&[shard, b"?cfosnp"[number % 7], 0, 0, 0]).expect("the server's port is open");
            }
        }
        let answered = EACH * 5 / 7;
        let mut counts = [vec![], vec![], vec![]];
        server.ends_as(
            fates! { received: 3 * EACH, answered: 3 * answered, failed: 3 * EACH / 7, stalled: 3 * EACH / 7 },
            policy,
        );
        for client in &clients {
            client.set_nonblocking(true).expect("a socket");
            let mut answer = [0; 8];
            while let Ok(length) = client.recv(&mut answer) {
                let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
                let (shard, count) = answer.split_once(' ').expect("two numbers");
                counts[shard.parse::<usize>().expect("a number")].push(count.parse::<u64>().expect("a number"));
            }
        }
        for mut counts in counts {
            counts.sort_unstable();
            assert!(counts.iter().copied().eq(1..=answered), "{policy}: {counts:?}");
        }
    }
}

// Do requests that name no shard go to one by their sender's address?
#[test]
fn a_sender_has_one_shard() {
    let server = Running::on(bound(&sized("steal", 4)), Counting);
    let mut met = BTreeSet::new();
    for _ in 0..40 {
        let client = client(&server);
        let answers = [(); 3].map(|()| ask_from(&client, "-c..."));
        let shards = answers.each_ref().map(|answer| answer.split_once(' ').expect("two numbers").0);
        assert!(shards.iter().all(|shard| *shard == shards[0]), "{answers:?}");
        met.insert(shards[0].to_owned());
    }
    assert_eq!(met.len(), 3, "40 senders are spread");
    server.ends_as(fates! { received: 120, answered: 120 }, "steal");
}
