//! Does quinn's client get correct answers, over many streams and connections, under very different
//! policies?

use crate::support::{RSA, Server, ask, patient, request, run};
use forebay_quic::application::REFUSED;
use quinn::{ReadError, ReadToEndError};
use std::process::Command;
use std::time::Duration;
use tokio::task::JoinSet;

const POLICIES: [&str; 3] = ["auto", "isolated", "levels"];

#[test]
fn streams_are_echoed() {
    for policy in POLICIES {
        let Some(server) = Server::start(&["--policy", policy]) else { return };
        run(async {
            let client = server.client();
            let connection = server.connect(&client).await;
            let mut asked = JoinSet::new();
            for number in 0..40_usize {
                let connection = connection.clone();
                asked.spawn(async move {
                    let text: Vec<u8> = (0..number * 1_000).map(|byte| (byte * number) as u8).collect();
                    let answer = ask(&connection, &[b"e", &text[..]].concat()).await;
                    assert!(answer == Ok(text), "stream {number}");
                });
            }
            while let Some(result) = asked.join_next().await {
                result.expect("no panic");
            }
        });
    }
}

#[test]
fn bulk_arrives_whole() {
    for policy in POLICIES {
        let Some(server) = Server::start(&["--policy", policy, "--mtu", "1452"]) else { return };
        run(async {
            let client = server.client();
            let connection = server.connect(&client).await;
            let answer = ask(&connection, &request(5_000_000, 0)).await.expect("it comes");
            assert!(answer.len() == 5_000_000 && answer.iter().all(|byte| *byte == 0), "{policy}");
            let bytes = [b"u", &[7; 5_000_000][..]].concat();
            assert_eq!(ask(&connection, &bytes).await, Ok(5_000_000_u64.to_be_bytes().to_vec()), "{policy}");
        });
    }
}

// Do many handshakes and requests all succeed while some requests compute?
#[test]
fn many_connections_are_served_at_once() {
    const CONNECTIONS: usize = 120;
    for policy in POLICIES {
        let Some(server) = Server::start(&["--policy", policy]) else { return };
        run(async {
            let clients = [(); 4].map(|()| server.client());
            let mut asked = JoinSet::new();
            for number in 0..CONNECTIONS {
                let connecting = clients[number % 4].connect(server.address, "localhost").expect("a local address");
                asked.spawn(async move {
                    let connection = patient(connecting).await.expect("a handshake");
                    for length in [10, 2_000] {
                        let micros = if number % 10 == 0 { 2_000 } else { 0 };
                        let answer = ask(&connection, &request(length, micros)).await;
                        assert_eq!(answer, Ok(vec![0; length as usize]), "connection {number}");
                    }
                    connection
                });
            }
            let mut open = Vec::new();
            while let Some(result) = asked.join_next().await {
                open.push(result.expect("no panic"));
            }
            assert_eq!(open.len(), CONNECTIONS);
            server.await_metric("quic_connections", CONNECTIONS as f64).await;
            server.await_metric("quic_handshakes", 0.0).await;
            open.iter().for_each(|connection| connection.close(0_u32.into(), b"done"));
            patient(async {
                for client in &clients {
                    client.wait_idle().await;
                }
            })
            .await;
            server.await_metric("quic_connections", 0.0).await;
        });
    }
}

/// A server with one worker.
fn one_worker() -> Option<Server> {
    Server::start_as(Command::new(env!("CARGO_BIN_EXE_forebay-quic")), &["--workers", "1", "--policy", "levels"], RSA)
}

/// Streams that each compute for 100 ms.
const HEAVY: usize = 20;

// Do computations for streams hold up no other stream of their connection? Method: one worker,
// which computes for two seconds. Were streams served one after the other, the last light one would
// come after all heavy ones.
#[test]
fn heavy_streams_hold_up_no_light_one() {
    let Some(server) = one_worker() else { return };
    run(async {
        let client = server.client();
        let connection = server.connect(&client).await;
        let mut heavy = JoinSet::new();
        for _ in 0..HEAVY {
            let connection = connection.clone();
            heavy.spawn(async move { ask(&connection, &request(3, 100_000)).await });
        }
        for _ in 0..5 {
            assert_eq!(ask(&connection, b"elight").await, Ok(b"light".to_vec()));
        }
        let mut ended = 0;
        while let Some(answer) = heavy.try_join_next() {
            assert_eq!(answer.expect("no panic"), Ok(vec![0; 3]));
            ended += 1;
        }
        assert!(ended < HEAVY, "all heavy streams ended before five light ones");
        while let Some(answer) = heavy.join_next().await {
            assert_eq!(answer.expect("no panic"), Ok(vec![0; 3]));
        }
        server.await_begun(HEAVY).await;
    });
}

// Does a computation end early if its client no longer wants the answer?
#[test]
fn no_computation_goes_on_for_a_stream_that_was_stopped() {
    let Some(server) = one_worker() else { return };
    run(async {
        let client = server.client();
        let connection = server.connect(&client).await;
        let before = server.cpu_of("forebay-0");
        let mut heavy = Vec::new();
        for _ in 0..HEAVY {
            let (mut send, receive) = connection.open_bi().await.expect("a stream");
            send.write_all(&request(3, 100_000)).await.expect("it is open");
            send.finish().expect("it is open");
            heavy.push(receive);
        }
        // By then all computations have begun.
        assert_eq!(ask(&connection, b"elight").await, Ok(b"light".to_vec()));
        heavy.iter_mut().for_each(|receive| receive.stop(0_u32.into()).expect("it is open"));
        assert_eq!(ask(&connection, b"elight").await, Ok(b"light".to_vec()));
        server.await_begun(HEAVY).await;
        let used = server.cpu_of("forebay-0") - before;
        assert!(used < Duration::from_secs(1), "{used:?} of two seconds");
    });
}

#[test]
fn what_there_is_not_is_reset() {
    let Some(server) = Server::start(&[]) else { return };
    run(async {
        let client = server.client();
        let connection = server.connect(&client).await;
        // An unknown kind, an incomplete head, bytes after the head, and a computation that is too
        // long.
        let long = request(1, 100_001);
        let more = [request(1, 1), vec![0]].concat();
        for question in [&b"?"[..], b"r12345", &more, &long, b""] {
            let answer = ask(&connection, question).await;
            assert_eq!(answer, Err(ReadToEndError::Read(ReadError::Reset(REFUSED.into()))), "{question:?}");
        }
        assert_eq!(ask(&connection, b"estill here").await, Ok(b"still here".to_vec()));
    });
}
