//! Does the server answer over QUIC as over UDP, and as RFC 9250 has it?

use crate::served::{A, TXT, essence, over_udp, question, stop};
use crate::support::{Server, example_zone, free_port, have, output};
use forebay::time::{Nanos, clock};
use quic_client::{ONE_DATAGRAM, RSA, client_config, client_of, patient, run, with_certificate};
use quinn::{Connection, ConnectionError, Endpoint, ReadError, ReadToEndError};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tokio::task::JoinSet;

const PAGE: &str = include_str!("../../README.md");

/// The option of padding, of three zeros.
const PADDING: &[u8] = b"\0\x0c\0\x03\0\0\0";

/// The time in which a question must be whole.
const WHOLE_WITHIN: Nanos = Nanos::from_secs(10);

/// Signatures that are asked for at once: no more than a client may have streams open.
const HEAVY: usize = 60;

/// A server with further arguments that has a certificate, made by the README's command, and the
/// certificate's folder. `None` without `openssl`.
fn start(zone: &Path, arguments: &[&str]) -> Option<(Server, TempDir)> {
    let dir = with_certificate(PAGE, RSA)?;
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| dir.path().join(name).display().to_string());
    let quic = format!("127.0.0.1:{}", free_port());
    let server = Server::start(zone, &[&["--quic", &quic, "--cert", &cert, "--key", &key], arguments].concat());
    assert_eq!(server.quic.map(|at| at.to_string()), Some(quic));
    Some((server, dir))
}

async fn connect(server: &Server, dir: &TempDir) -> (Endpoint, Connection) {
    let endpoint = client_of(client_config(dir.path(), ONE_DATAGRAM, "doq"));
    let connecting = endpoint.connect(server.quic.expect("it has one"), "localhost").expect("a local address");
    let connection = patient(connecting).await.expect("a handshake");
    (endpoint, connection)
}

/// What comes on a stream of its own for these bytes.
async fn exchange(connection: &Connection, bytes: &[u8]) -> Result<Vec<u8>, ReadToEndError> {
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    send.write_all(bytes).await.expect("it is open");
    send.finish().expect("it is open");
    patient(receive.read_to_end(1 << 17)).await
}

/// A message after its length.
fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes()[..], message].concat()
}

/// The answer to a question.
async fn ask(connection: &Connection, message: &[u8]) -> Vec<u8> {
    let answer = exchange(connection, &framed(message)).await.expect("an answer");
    let (length, answer) = answer.split_first_chunk().expect("a length");
    assert_eq!(usize::from(u16::from_be_bytes(*length)), answer.len());
    answer.to_vec()
}

/// The option by which a client asks for signatures, in a question without other options.
fn signed(mut message: Vec<u8>) -> Vec<u8> {
    let flags = message.len() - 4;
    message[flags] = 0x80;
    message
}

// Are the answers those that come over UDP, with and without signatures, also for errors?
#[test]
fn answers_are_those_of_udp() {
    for sign in [&[][..], &["--sign", "p256"]] {
        let Some((server, dir)) = start(&example_zone(), sign) else { return };
        run(async {
            let (_client, connection) = connect(&server, &dir).await;
            for name in ["www.example.test", "any.name.star.example.test", "no.such.example.test", "elsewhere.test"] {
                for (rtype, options) in [(A, None), (A, Some(&b""[..])), (TXT, Some(b""))] {
                    let message = question(0, name, rtype, options);
                    let message = if options.is_some() && !sign.is_empty() { signed(message) } else { message };
                    let (quic, udp) = (ask(&connection, &message).await, over_udp(&server, &message));
                    assert_eq!(quic, udp, "{name} {sign:?}");
                }
            }
        });
    }
}

// Are long answers whole, even for a client that accepts little over UDP?
#[test]
fn long_answers_are_whole() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("long.zone");
    let texts = (0..200).map(|n| format!("long TXT \"{n:0>200}\"\n")).collect::<String>();
    fs::write(&file, format!("@ 60 SOA ns host 7 1 1 1 30\n@ 60 NS ns\n{texts}")).expect("written");
    let Some((server, certificate)) = start(&file, &[]) else { return };
    let message = question(0, "long.example.test", TXT, None);
    run(async {
        let (_client, connection) = connect(&server, &certificate).await;
        let answer = ask(&connection, &message).await;
        assert_eq!((essence(&answer).1, answer[7]), (false, 200));
        assert!(answer.len() > 40_000, "{}", answer.len());
    });
    assert!(essence(&over_udp(&server, &message)).1, "it is cut over UDP");
}

// Are answers to padded questions padded, and only these?
#[test]
fn padded_questions_get_padded_answers() {
    let Some((server, dir)) = start(&example_zone(), &["--nsid", "east-1"]) else { return };
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        let mut lengths = Vec::new();
        for name in ["www.example.test", "any.name.star.example.test", "big.example.test"] {
            let asked = |options: &[u8]| question(0, name, TXT, Some(options));
            let plain = ask(&connection, &asked(b"")).await;
            for options in [PADDING, &[PADDING, b"\0\x03\0\0"].concat(), &[b"\0\x0a\0\x08abcdefgh", PADDING].concat()] {
                let padded = ask(&connection, &asked(options)).await;
                assert!(padded.len().is_multiple_of(468) && padded.len() > plain.len(), "{name}: {}", padded.len());
                assert_eq!(padded[12..plain.len() - 11], plain[12..plain.len() - 11], "{name}");
                lengths.push(padded.len());
            }
            assert!(!over_udp(&server, &asked(PADDING)).len().is_multiple_of(468));
        }
        assert!(lengths.iter().max() > lengths.iter().min(), "{lengths:?}");
    });
}

/// The code with which the server has closed the connection.
async fn closed(connection: &Connection) -> u64 {
    match patient(connection.closed()).await {
        ConnectionError::ApplicationClosed(close) => close.error_code.into(),
        why => panic!("{why}"),
    }
}

/// The code with which the server has reset a stream.
fn reset<T>(read: &Result<T, ReadToEndError>) -> Option<u64> {
    match read {
        Err(ReadToEndError::Read(ReadError::Reset(code))) => Some((*code).into()),
        _ => None,
    }
}

// Does a client learn that it does not keep to the protocol, also if it leaves its stream open?
#[test]
fn who_breaks_the_protocol_is_told() {
    let Some((server, dir)) = start(&example_zone(), &[]) else { return };
    let asked = |id| question(id, "www.example.test", A, None);
    let right = framed(&asked(0));
    let shorter = [&(right.len() as u16 - 3).to_be_bytes()[..], &asked(0)].concat();
    let longer = [&(right.len() as u16 - 1).to_be_bytes()[..], &asked(0)].concat();
    let keeps_alive = framed(&question(0, "www.example.test", A, Some(b"\0\x0b\0\0")));
    let mut reply = asked(0);
    reply[2] |= 0x80;
    let twice = [&right[..], &right].concat();
    let (named, reply, short) = (framed(&asked(1)), framed(&reply), framed(&[0; 11]));
    let whole = [&named, &keeps_alive, &reply, &short, &shorter, &longer, &twice, &vec![0], &vec![], &vec![0; 70_000]];
    for (wrong, ends) in whole.into_iter().map(|wrong| (wrong, true)).chain([(&shorter, false), (&twice, false)]) {
        run(async {
            let (_client, connection) = connect(&server, &dir).await;
            let began = clock::now();
            let (mut send, _receive) = connection.open_bi().await.expect("a stream");
            // The connection may end before all is sent.
            let _ = send.write_all(wrong).await;
            if ends {
                let _ = send.finish();
            }
            assert_eq!(closed(&connection).await, 2, "{:?}", &wrong[..wrong.len().min(40)]);
            assert!(clock::now().minus(began) < WHOLE_WITHIN, "what comes is enough to know");
        });
    }
}

// Is a stream that its client leaves open given up, while others of its connection are answered?
#[test]
fn a_question_must_end() {
    let Some((server, dir)) = start(&example_zone(), &[]) else { return };
    let message = question(0, "www.example.test", A, None);
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        let began = clock::now();
        let (mut send, _receive) = connection.open_bi().await.expect("a stream");
        send.write_all(&framed(&message)).await.expect("it is open");
        assert_eq!(ask(&connection, &message).await, over_udp(&server, &message));
        assert_eq!(closed(&connection).await, 2);
        assert!(clock::now().minus(began) >= WHOLE_WITHIN);
    });
}

// Does a stream that its client takes back end with the code of that, and leave its connection?
#[test]
fn what_is_taken_back_ends_as_cancelled() {
    let Some((server, dir)) = start(&example_zone(), &[]) else { return };
    let message = question(0, "www.example.test", A, None);
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        for has_come in [false, true] {
            let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
            send.write_all(&framed(&message)[..9]).await.expect("it is open");
            if has_come {
                ask(&connection, &message).await;
            }
            send.reset(3_u32.into()).expect("it is open");
            assert_eq!(reset(&patient(receive.read_to_end(1)).await), Some(3));
        }
        assert_eq!(ask(&connection, &message).await, over_udp(&server, &message));
    });
}

/// A question for a signature that no other one needs.
fn heavy(number: usize) -> Vec<u8> {
    signed(question(0, &format!("n{number}.star.example.test"), TXT, Some(b"")))
}

/// Asks these questions at once. Returns their results in the order in which their streams end.
async fn race(
    connection: &Connection,
    messages: impl Iterator<Item = Vec<u8>>,
) -> Vec<(usize, Result<Vec<u8>, ReadToEndError>)> {
    let mut running = JoinSet::new();
    for (number, message) in messages.enumerate() {
        let connection = connection.clone();
        running.spawn(async move { (number, exchange(&connection, &framed(&message)).await) });
    }
    let mut ended = Vec::new();
    while let Some(end) = patient(running.join_next()).await {
        ended.push(end.expect("no panic"));
    }
    ended
}

// Do light questions overtake signatures of the same connection, under one policy?
#[test]
fn light_questions_overtake_signatures() {
    let arguments = ["--sign", "rsa2048", "--policy", "levels", "--set", "workers=1"];
    let Some((server, dir)) = start(&example_zone(), &arguments) else { return };
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        let light = question(0, "www.example.test", A, None);
        let ended = race(&connection, (0..HEAVY).map(heavy).chain([light])).await;
        let place = ended.iter().position(|(number, _)| *number == HEAVY).expect("it is among them");
        assert!(place < HEAVY / 4, "{place} signatures came first");
        assert!(ended.iter().all(|(_, answer)| answer.is_ok()));
    });
}

// Is a question that overload ends told by the code of that, and does its connection stay?
#[test]
fn what_is_shed_ends_as_load() {
    let arguments = ["--sign", "rsa2048", "--set", "workers=1", "--set", "max-wait=1ms"];
    let Some((server, dir)) = start(&example_zone(), &arguments) else { return };
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        let ended = race(&connection, (0..HEAVY).map(heavy)).await;
        let codes: Vec<_> = ended.iter().filter(|(_, end)| end.is_err()).map(|(_, end)| reset(end)).collect();
        assert!(!codes.is_empty() && codes.iter().all(|code| *code == Some(4)), "{codes:?}");
        // On a busy machine this one may be shed too.
        let light = framed(&question(0, "www.example.test", A, None));
        patient(async { while exchange(&connection, &light).await.is_err() {} }).await;
    });
}

// Is no signature made that its client wants no more?
#[test]
fn what_is_stopped_is_not_signed() {
    let Some((server, dir)) = start(&example_zone(), &["--sign", "rsa2048", "--set", "workers=1"]) else { return };
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        for number in 0..HEAVY {
            let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
            send.write_all(&framed(&heavy(number))).await.expect("it is open");
            send.finish().expect("it is open");
            receive.stop(3_u32.into()).expect("it is open");
        }
        ask(&connection, &heavy(HEAVY)).await;
        let made = server.metric("dns_signatures_made_total");
        assert!(made < HEAVY as f64 / 4.0, "{made}");
    });
}

// Does a server that ends say that there is no error?
#[test]
fn a_server_that_ends_says_no_error() {
    let Some((mut server, dir)) = start(&example_zone(), &[]) else { return };
    run(async {
        let (_client, connection) = connect(&server, &dir).await;
        ask(&connection, &question(0, "www.example.test", A, None)).await;
        stop(&mut server);
        assert_eq!(closed(&connection).await, 0);
    });
}

// Does the README's line get its answer, also from a client that looks at the certificate?
#[test]
fn kdig_is_answered() {
    let helps = || output(Command::new("kdig").arg("--help")).contains("quic");
    if !have(&["kdig"]) || !helps() {
        return;
    }
    let Some((server, dir)) = start(&example_zone(), &[]) else { return };
    let port = server.quic.expect("it has one").port().to_string();
    let line = PAGE.lines().find(|line| line.starts_with("kdig ")).expect("a command").replace("8853", &port);
    let (before, after) = line.split_once(" +quic ").expect("it asks over QUIC");
    // The last option of a transport holds.
    let certified = format!("+tls-ca={} +tls-hostname=localhost", dir.path().join("cert.pem").display());
    for options in ["+timeout=10", &certified] {
        let line = format!("{before} {options} +quic {after}");
        let said = output(Command::new("kdig").args(line.split(' ').skip(1)));
        assert!(said.contains("status: NOERROR") && said.contains("192.0.2.81"), "{said}");
    }
}
