//! Do connections begin, move to another address and end as they should?

use crate::support::{Server, ask, patient, request, run};
use quinn::{ApplicationClose, ConnectionError, VarInt};
use std::net::{Ipv4Addr, UdpSocket};

// Under pressure, does a server first ask for a proof of the address, and then serve?
#[test]
fn a_retry_comes_first_under_pressure() {
    for (retry_from, retries) in [("0", 3.0), ("1000", 0.0)] {
        let Some(server) = Server::start(&["--retry-from", retry_from]) else { return };
        run(async {
            let client = server.client();
            for _ in 0..3 {
                let connection = server.connect(&client).await;
                assert_eq!(ask(&connection, b"eproven").await, Ok(b"proven".to_vec()));
            }
            server.await_metric("quic_retries_total", retries).await;
        });
    }
}

// Is a connection above the limit told so, and can a new one take the place of one that ended?
#[test]
fn connections_have_a_limit() {
    let Some(server) = Server::start(&["--connections", "1"]) else { return };
    run(async {
        let client = server.client();
        let first = server.connect(&client).await;
        let second = patient(client.connect(server.address, "localhost").expect("a local address")).await;
        let Err(ConnectionError::ConnectionClosed(close)) = second else { panic!("{second:?}") };
        assert_eq!(close.error_code.to_string(), "the server refused to accept a new connection");
        first.close(0_u32.into(), b"done");
        server.await_metric("quic_connections", 0.0).await;
        server.connect(&client).await;
    });
}

// Does a client that gets a new address keep its connection, and is the same shard used?
#[test]
fn a_client_may_move() {
    let Some(server) = Server::start(&[]) else { return };
    run(async {
        let client = server.client();
        let connection = server.connect(&client).await;
        for _ in 0..5 {
            assert_eq!(ask(&connection, &request(100_000, 0)).await.map(|answer| answer.len()), Ok(100_000));
            client.rebind(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")).expect("a socket");
        }
        assert_eq!(ask(&connection, b"ehere").await, Ok(b"here".to_vec()));
    });
}

#[test]
fn a_silent_connection_ends() {
    for policy in ["auto", "isolated"] {
        let Some(server) = Server::start(&["--idle", "1", "--policy", policy]) else { return };
        run(async {
            let client = server.client();
            let connection = server.connect(&client).await;
            server.await_metric("quic_connections", 1.0).await;
            assert_eq!(patient(connection.closed()).await, ConnectionError::TimedOut);
            server.await_metric("quic_connections", 0.0).await;
        });
    }
}

#[test]
fn a_stop_closes_connections() {
    for policy in ["auto", "isolated"] {
        let Some(server) = Server::start(&["--policy", policy]) else { return };
        let client = run_to_stop(&server);
        assert_eq!(client.len(), 20, "{policy}");
        for error in client {
            let close = ApplicationClose { error_code: VarInt::from_u32(0), reason: (&b"the server stops"[..]).into() };
            assert_eq!(error, ConnectionError::ApplicationClosed(close), "{policy}");
        }
        assert!(server.ended().contains("received"), "{policy}");
    }
}

/// How 20 open connections end when the server stops.
fn run_to_stop(server: &Server) -> Vec<ConnectionError> {
    let mut ends = Vec::new();
    run(async {
        let client = server.client();
        let mut connections = Vec::new();
        for _ in 0..20 {
            connections.push(server.connect(&client).await);
        }
        // A connection whose handshake is not complete cannot be told why it ends.
        server.await_metric("quic_handshakes", 0.0).await;
        server.terminate();
        for connection in &connections {
            ends.push(patient(connection.closed()).await);
        }
    });
    ends
}
