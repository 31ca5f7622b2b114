//! Do connections begin, move to another address and end as they should?

use crate::support::{
    ONE_DATAGRAM, PAGE, RSA, Server, ask, client_config, client_of, patient, request, run, with_certificate,
};
use forebay_quic::echo::PROTOCOL;
use quinn::{ApplicationClose, ConnectionError, VarInt};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Command;

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

// Is a network that has many connections limited, and others not? Must its clients prove their
// addresses before?
#[test]
fn a_network_has_its_limit() {
    let Some(server) = Server::start(&["--connections-of-network", "2"]) else { return };
    run(async {
        let client = server.client();
        let open = [server.connect(&client).await, server.connect(&client).await];
        server.await_metric("quic_retries_total", 1.0).await;
        let third = patient(client.connect(server.address, "localhost").expect("a local address")).await;
        assert!(matches!(third, Err(ConnectionError::ConnectionClosed(_))), "{third:?}");
        let other = server.client_at([127, 9, 9, 9].into());
        let _other = server.connect(&other).await;
        open[0].close(0_u32.into(), b"done");
        server.await_metric("quic_connections", 2.0).await;
        server.connect(&client).await;
    });
}

// Does a client need a certificate where the server asks for one? Does a wrong file of authorities
// get an error that names it?
#[test]
fn clients_may_need_a_certificate() {
    let Some(server) = Server::start(&["--client-ca", "cert.pem"]) else { return };
    run(async {
        let connected = async |client: &quinn::Endpoint| {
            let connection = patient(client.connect(server.address, "localhost").expect("a local address")).await?;
            // The server looks at the certificate after the client has ended the handshake.
            let answer = ask(&connection, b"ein").await;
            if answer == Ok(b"in".to_vec()) { Ok(()) } else { Err(patient(connection.closed()).await) }
        };
        assert_eq!(connected(&server.certified_client()).await, Ok(()));
        assert!(matches!(connected(&server.client()).await, Err(ConnectionError::ConnectionClosed(_))));
        assert_eq!(connected(&server.certified_client()).await, Ok(()));
    });
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-quic"));
    command.args(["--cert", "cert.pem", "--key", "key.pem", "--client-ca", "none.pem", "--check-config"]);
    let refused = command.current_dir(server.directory()).output().expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--client-ca none.pem: "), "{said}");
}

// Does SIGHUP replace the certificate for new connections, and keep the old one if the new one is
// wrong? Do established connections go on?
#[test]
fn the_certificate_is_read_again() {
    let Some((server, other)) = Server::start(&[]).zip(with_certificate(PAGE, RSA)) else { return };
    let replace = |name: &str| {
        std::fs::copy(other.path().join(name), server.directory().join(name)).expect("a file");
    };
    run(async {
        let (old, new) = (server.client(), client_of(client_config(other.path(), ONE_DATAGRAM, PROTOCOL)));
        let resumes = server.resuming_client();
        let known = server.connect(&resumes).await;
        assert_eq!(ask(&known, b"etickets have come").await, Ok(b"tickets have come".to_vec()));
        // Tickets of many others take no place of these.
        for _ in 0..200 {
            let other = server.connect(&server.resuming_client()).await;
            assert_eq!(ask(&other, b"e").await, Ok(Vec::new()));
        }
        let first = server.connect(&old).await;
        let connect = async |client: &quinn::Endpoint| {
            patient(client.connect(server.address, "localhost").expect("a local address")).await.is_ok()
        };
        assert!(!connect(&new).await && connect(&old).await);
        replace("cert.pem");
        server.reload();
        server.await_log("--cert and --key").await;
        assert!(!connect(&new).await && connect(&old).await, "the key belongs to the old one");
        replace("key.pem");
        server.reload();
        server.await_log("the configuration has been read again").await;
        assert!(connect(&new).await && !connect(&old).await);
        assert!(connect(&resumes).await, "who resumes a session needs no certificate");
        assert_eq!(ask(&first, b"estill here").await, Ok(b"still here".to_vec()));
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
