//! Does quinn's client get correct answers, over many streams and connections, under very different
//! policies?

use crate::support::{Server, ask, patient, request, run};
use forebay_quic::streams::REFUSED;
use quinn::{ReadError, ReadToEndError};
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
