//! Is what a task begins a request of its own?

use super::lives::SILENCE;
use super::{Counted, ONE_WORKER, heard, say, start};
use crate::support::{patient, run};
use forebay::fate::Fate;
use forebay::time::{Nanos, clock};
use forebay::{Admitted, Handler, Reply, Request, checkpoint};
use forebay_quic::connection::Unserved;
use quinn::{ApplicationClose, ConnectionError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Answers with the number of bytes, after computing for long if there are few.
struct Counts;

impl Handler for Counts {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        while request.bytes() == b"long" {
            checkpoint().await;
        }
        let _ = reply.put(request.bytes().len().to_string().as_bytes());
    }
}

// Is what a task begins a request of its own, with a result, a fate, a class and a deadline? Does
// it hold up no other task, and end once it is not wanted?
#[test]
fn computing_holds_up_no_task() {
    let served = start(ONE_WORKER, |connection| async move {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let endless = || {
            let (begun, ended) = (Arc::clone(&begun), Counted(Arc::clone(&ended)));
            async move {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ended = ended;
                loop {
                    checkpoint().await;
                }
            }
        };
        assert!(connection.here() > Nanos::ZERO);
        assert_eq!(connection.begin(Admitted::new(()), async { 7 }).await, Ok(7));
        let fails = connection.begin(Admitted::new(()), async { std::panic::resume_unwind(Box::new(())) });
        assert_eq!(fails.await, Err::<(), _>(Unserved::As(Fate::Failed)));
        let late = Admitted::new(()).deadline(Nanos::from_millis(20));
        assert_eq!(connection.begin(late, endless()).await, Err::<(), _>(Unserved::As(Fate::ShedExpired)));
        let handler = Arc::new(Counts);
        assert_eq!(connection.serve(&handler, b"four".to_vec(), 9).await, Ok(b"4".to_vec()));
        assert_eq!(connection.serve(&handler, b"four".to_vec(), 0).await, Err(Unserved::As(Fate::Failed)));
        // More than the server has room for: 256 are under way, and the others wait for them.
        for number in 0..600 {
            let (on, endless) = (connection.clone(), endless());
            let handler = Arc::clone(&handler);
            let task = async move {
                let waits = async {
                    match number % 2 {
                        0 => on.begin(Admitted::new(()), endless).await.map(drop),
                        _ => on.serve(&handler, b"long".to_vec(), 9).await.map(drop),
                    }
                };
                assert!(tokio::time::timeout(Duration::from_millis(300), waits).await.is_err());
            };
            connection.spawn(task).expect("room");
        }
        say(&connection, "begun").await;
        // All wait until they are not wanted. Then there is room again.
        assert_eq!(connection.begin(Admitted::new(()), async { 8 }).await, Ok(8));
        while ended.load(Ordering::SeqCst) < begun.load(Ordering::SeqCst) {
            forebay::handler::sleep(Duration::from_millis(5)).await;
        }
        say(&connection, "ended").await;
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        assert_eq!(heard(&connection).await, b"begun");
        assert_eq!(heard(&connection).await, b"ended");
        connection.close(0_u32.into(), b"");
    });
    let fates = served.stop();
    assert_eq!((fates.shed_expired, fates.answered), (1, 1), "{fates:?}");
}

// Does a task that waits for room find it, though its connection is silent?
#[test]
fn room_is_found_in_silence() {
    let count = AtomicUsize::new(0);
    let served = start(ONE_WORKER, move |connection| {
        let fills = count.fetch_add(1, Ordering::SeqCst) == 0;
        async move {
            if fills {
                for _ in 0..256 {
                    let on = connection.clone();
                    let endless = async {
                        while std::hint::black_box(true) {
                            checkpoint().await;
                        }
                    };
                    let _ = connection.spawn(async move { drop(on.begin(Admitted::new(()), endless).await) });
                }
                say(&connection, "full").await;
            } else {
                say(&connection, "waits").await;
                let made = connection.begin(Admitted::new(()), async { "in" }).await;
                say(&connection, made.expect("room")).await;
            }
            connection.closed().await;
        }
    });
    let Some(served) = served else { return };
    run(async {
        let (_first, fills) = served.connect().await;
        assert_eq!(heard(&fills).await, b"full");
        let (_second, waits) = served.connect().await;
        assert_eq!(heard(&waits).await, b"waits");
        tokio::time::sleep(SILENCE).await;
        fills.close(0_u32.into(), b"");
        assert_eq!(heard(&waits).await, b"in");
    });
}

// Does a task pass its checkpoints, though the policy would have the worker back? A task that
// paused there would never go on.
#[test]
fn a_checkpoint_pauses_no_task() {
    let served = start(ONE_WORKER, |connection| async move {
        for _ in 0..20 {
            let began = clock::now();
            while clock::now().minus(began) < Nanos::from_millis(2) {
                std::hint::spin_loop();
            }
            checkpoint().await;
        }
        say(&connection, "passed").await;
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        assert_eq!(heard(&connection).await, b"passed");
    });
}

// A server stops while a connection computes an answer, and another task of it panics. Does the
// answer arrive whole, and is nothing else begun?
#[test]
fn a_stop_waits_for_what_has_begun() {
    let served = start(ONE_WORKER, |connection| async move {
        let stops = Arc::new(AtomicUsize::new(0));
        let has_stopped = Arc::clone(&stops);
        let computes = async move {
            while has_stopped.load(Ordering::SeqCst) == 0 {
                checkpoint().await;
            }
            vec![b'a'; 5_000]
        };
        let on = connection.clone();
        let answers = async move {
            let answer = on.begin(Admitted::new(()), computes).await.expect("it ends");
            let late = on.begin(Admitted::new(()), async {}).await;
            assert_eq!(late, Err(Unserved::As(Fate::ShedDraining)));
            say(&on, answer).await;
        };
        connection.spawn(answers).expect("room");
        let on = connection.clone();
        let panics = async move {
            on.stopping().await;
            std::panic::resume_unwind(Box::new(()));
        };
        connection.spawn(panics).expect("room");
        let on = connection.clone();
        // The other one hears of the stop before this one.
        let tells = async move {
            say(&on, "begun").await;
            on.stopping().await;
            say(&on, "stopping").await;
            stops.store(1, Ordering::SeqCst);
        };
        connection.spawn(tells).expect("room");
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        assert_eq!(heard(&connection).await, b"begun");
        let stop = std::thread::spawn(|| served.stop());
        assert_eq!(heard(&connection).await, b"stopping");
        assert_eq!(heard(&connection).await, vec![b'a'; 5_000]);
        let close = ApplicationClose { error_code: 0_u32.into(), reason: (&b"the server stops"[..]).into() };
        assert_eq!(patient(connection.closed()).await, ConnectionError::ApplicationClosed(close));
        let fates = stop.join().expect("no panic");
        assert_eq!((fates.shed_draining, fates.in_flight), (0, 0), "{fates:?}");
    });
}
