//! Where do tasks run, and when do they end?

use super::{App, Chooses, Counted, ONE_WORKER, both, heard, say, start, start_app};
use crate::support::{ONE_DATAGRAM, PATIENCE, RSA, Server, client_config, client_of, patient, run};
use ::support::skip::skip;
use forebay::Admitted;
use forebay::time::Nanos;
use forebay_quic::connection::TASKS_MAX;
use forebay_quic::{Connection, Incoming, Wish};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

// Is a connection closed when its last task has ended, and not before what that has written has
// left? Are the tasks of one that is gone dropped?
#[test]
fn tasks_and_their_connection_end_together() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&dropped);
    let served = start(&[], move |connection| {
        let counts = Arc::clone(&counts);
        async move {
            let mut uni = connection.accept_uni().await.expect("a stream");
            let waits = uni.read_to_end(1).await == Ok(b"w".to_vec());
            for _ in 0..3 {
                let (counted, other) = (Counted(Arc::clone(&counts)), connection.clone());
                let task = async move {
                    match waits {
                        true => std::future::pending().await,
                        false => {
                            let _ = other.accept_uni().await;
                            say(&other, [b'l'; 1_000]).await;
                        }
                    }
                    drop(counted);
                };
                connection.spawn(task).expect("room");
            }
            say(&connection, "spawned").await;
        }
    });
    let Some(served) = served else { return };
    run(async {
        for kind in [b"w", b"e"] {
            dropped.store(0, Ordering::SeqCst);
            let (_client, connection) = served.connect().await;
            let speak = async || {
                let mut uni = connection.open_uni().await.expect("a stream");
                uni.write_all(kind).await.expect("it is open");
                uni.finish().expect("it is open");
            };
            speak().await;
            assert_eq!(heard(&connection).await, b"spawned");
            assert_eq!(dropped.load(Ordering::SeqCst), 0);
            match kind {
                b"w" => connection.close(0_u32.into(), b""),
                _ => {
                    for _ in 0..3 {
                        speak().await;
                    }
                    for _ in 0..3 {
                        assert_eq!(heard(&connection).await, [b'l'; 1_000]);
                    }
                    let why = patient(connection.closed()).await;
                    assert!(matches!(why, quinn::ConnectionError::ApplicationClosed(_)), "{why}");
                }
            }
            let all = async {
                while dropped.load(Ordering::SeqCst) < 3 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            };
            patient(all).await;
        }
    });
    assert_eq!(served.stop().failed, 0);
}

// Does a task that panics end alone, and its stream with a code? Does one that wakes itself without
// an end hold up no other connection? May there be a limited number of tasks?
#[test]
fn a_bad_task_holds_nothing_up() {
    let served = start(ONE_WORKER, |connection| async move {
        while let Ok((send, mut receive)) = connection.accept_bi().await {
            let on = connection.clone();
            let task = async move {
                let mut send = send;
                match &receive.read_to_end(1).await.expect("a byte")[..] {
                    b"p" => std::panic::resume_unwind(Box::new(())),
                    b"y" => loop {
                        tokio::task::yield_now().await;
                    },
                    b"s" => {
                        let fit = (0..2 * TASKS_MAX).filter(|_| on.spawn(std::future::pending()).is_ok()).count();
                        send.write_all(&fit.to_be_bytes()).await.expect("it is open");
                    }
                    _ => send.write_all(b"light").await.expect("it is open"),
                }
            };
            if connection.spawn(task).is_err() {
                return;
            }
        }
    });
    let Some(served) = served else { return };
    run(async {
        let ask = async |connection: &quinn::Connection, kind: &[u8]| {
            let (mut send, mut receive) = both(connection, kind).await;
            send.finish().expect("it is open");
            patient(receive.read_to_end(99)).await
        };
        let (_first, connection) = served.connect().await;
        let (_second, other) = served.connect().await;
        for _ in 0..3 {
            let reset = quinn::ReadToEndError::Read(quinn::ReadError::Reset(6_u32.into()));
            assert_eq!(ask(&connection, b"p").await, Err(reset));
        }
        let (mut endless, _receive) = both(&connection, b"y").await;
        endless.finish().expect("it is open");
        for _ in 0..20 {
            assert_eq!(ask(&other, b"l").await, Ok(b"light".to_vec()));
            assert_eq!(ask(&connection, b"l").await, Ok(b"light".to_vec()));
        }
        // Two tasks and those that wait beside them.
        let fit = ask(&other, b"s").await.expect("an answer");
        assert_eq!(fit, (TASKS_MAX - 2).to_be_bytes());
    });
    assert_eq!(served.stop().failed, 3);
}

// May a handle be used on another thread, while no event of the connection comes?
#[test]
fn handles_work_on_other_threads() {
    let served = start(&[], |connection| async move {
        let mut uni = connection.open_uni().await.expect("a stream");
        let (given, taken) = mpsc::channel();
        let on = connection.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(on.here(), Nanos::ZERO);
            run(async {
                uni.write_all(b"elsewhere").await.expect("it is open");
                let on_other = on.clone();
                on.spawn(async move { say(&on_other, "spawned").await }).expect("room");
                assert_eq!(on.begin(Admitted::new(()), async { 9 }).await, Ok(9));
                drop(uni);
                given.send(on.accept_uni().await.is_ok()).expect("it is awaited");
            });
        });
        let all = forebay::handler::aside(move || taken.recv()).await.expect("room");
        assert_eq!(all, Ok(true));
        say(&connection, "all").await;
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        let mut heard_all = [heard(&connection).await, heard(&connection).await];
        heard_all.sort();
        assert_eq!(heard_all, [&b"elsewhere"[..], b"spawned"]);
        connection.open_uni().await.expect("a stream").finish().expect("it is open");
        assert_eq!(heard(&connection).await, b"all");
        connection.close(0_u32.into(), b"");
    });
    assert_eq!(served.stop().failed, 0);
}

// Is no wake lost that another thread makes, at whatever instant? Method: eight threads ask a task
// each, and wait for its answer before they ask again. A wake that is lost keeps one for ever.
#[test]
fn no_wake_is_lost() {
    const THREADS: usize = 8;
    const ASKED: usize = 3_000;
    let served = start(&[("workers", "2")], |connection| async move {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (asks, mut asked) = tokio::sync::mpsc::channel::<mpsc::Sender<()>>(1);
                let task = async move {
                    while let Some(answers) = asked.recv().await {
                        let _ = answers.send(());
                    }
                };
                connection.spawn(task).expect("room");
                std::thread::spawn(move || {
                    let answered = |_: &usize| {
                        let (answers, answered) = mpsc::channel();
                        asks.blocking_send(answers).is_ok() && answered.recv_timeout(PATIENCE).is_ok()
                    };
                    (0..ASKED).filter(answered).count()
                })
            })
            .collect();
        let join = move || threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<usize>();
        say(&connection, forebay::handler::aside(join).await.expect("room").to_string()).await;
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        assert_eq!(heard(&connection).await, (THREADS * ASKED).to_string().as_bytes());
        connection.close(0_u32.into(), b"");
    });
    assert_eq!(served.stop().failed, 0);
}

/// After this time, neither side of a connection sends anything by itself.
pub(super) const SILENCE: Duration = Duration::from_secs(3);

// Is a task polled that another one spawns while no packet comes, and one that this one spawns?
#[test]
fn a_spawned_task_needs_no_packet() {
    let served = start(&[], |connection| async move {
        // Where all tasks are polled at once, they are polled once more.
        connection.spawn(std::future::pending()).expect("room");
        forebay::handler::sleep(SILENCE).await;
        let on = connection.clone();
        let second = async move {
            let other = on.clone();
            on.spawn(async move { say(&other, "third").await }).expect("room");
        };
        connection.spawn(second).expect("room");
        std::future::pending::<()>().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        let heard = tokio::time::timeout(Duration::from_secs(10), heard(&connection)).await;
        assert_eq!(heard.expect("it comes at once"), b"third");
    });
}

// Does an application decide whose connections begin, and does it learn of whom it decides?
#[test]
fn an_application_chooses_its_clients() {
    async fn first(connection: Connection) {
        say(&connection, "in").await;
        connection.closed().await;
    }
    let once_proven = |incoming: &Incoming| {
        assert!(incoming.remote_address != incoming.local_address && incoming.wait < Duration::from_secs(1));
        if incoming.is_proven { Wish::Accept } else { Wish::Retry }
    };
    let wishes: [(Chooses, Option<bool>); 4] = [
        (once_proven, Some(true)),
        (|_| Wish::Accept, Some(true)),
        (|_| Wish::Refuse, Some(false)),
        (|_| Wish::Ignore, None),
    ];
    for (wish, begins) in wishes {
        let Some(served) = start_app(&[], App { first: Box::new(|connection| Box::pin(first(connection))), wish })
        else {
            return;
        };
        run(async {
            let client = client_of(served.client.clone());
            let connecting = client.connect(served.running.address, "localhost").expect("a local address");
            match (begins, tokio::time::timeout(Duration::from_secs(3), connecting).await) {
                (None, answer) => assert!(answer.is_err(), "{answer:?}"),
                (Some(true), answer) => {
                    let connection = answer.expect("it is quick").expect("a handshake");
                    assert_eq!(heard(&connection).await, b"in");
                }
                (Some(false), answer) => {
                    let Ok(Err(quinn::ConnectionError::ConnectionClosed(close))) = answer else { panic!("{answer:?}") };
                    assert_eq!(close.error_code.to_string(), "the server refused to accept a new connection");
                }
            }
        });
        assert_eq!(served.stop().failed, 0);
    }
}

// Does the example of the README tell its clients the time?
#[test]
fn the_example_ticks() {
    let program = Path::new(env!("CARGO_BIN_EXE_forebay-quic")).with_file_name("examples").join("ticks");
    if !program.exists() {
        return skip("the example is not built: cargo build -p forebay-quic --examples makes it");
    }
    let Some(server) = Server::start_as(Command::new(program), &["--every", "20"], RSA) else { return };
    run(async {
        let client = client_of(client_config(&server.directory(), ONE_DATAGRAM, "ticks"));
        let connection = server.connect(&client).await;
        assert_eq!([heard(&connection).await, heard(&connection).await], [b"tick 1", b"tick 2"]);
    });
}
