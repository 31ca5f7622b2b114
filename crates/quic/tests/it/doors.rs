//! Does one handler serve what comes in datagrams, and what comes over streams?

use crate::support::{ONE_DATAGRAM, PAGE, RSA, Server, ask, run};
use ::support::skip::skip;
use forebay_quic::application::REFUSED;
use quinn::{ReadError, ReadToEndError};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use tokio::task::JoinSet;

/// A number without small factors: it takes seconds.
const HEAVY: &[u8] = b"18446744073709551557?";

fn program() -> Option<Command> {
    let program = Path::new(env!("CARGO_BIN_EXE_forebay-quic")).with_file_name("examples").join("two_doors");
    if !program.exists() {
        skip(format_args!("the example is not built: cargo build -p forebay-quic --examples makes it"));
        return None;
    }
    Some(Command::new(program))
}

/// The example with one worker, and its address for datagrams.
fn start(more: &[&str]) -> Option<(Server, SocketAddr)> {
    let doors = ["--listen", "127.0.0.1:0,127.0.0.2:0", "--quic", "127.0.0.2:0", "--alpn", "forebay-echo"];
    let workers = ["--workers", "1", "--policy", "levels"];
    let server = Server::start_as(program()?, &[&doors[..], &workers, more].concat(), RSA)?;
    let plain = server.first_address;
    Some((server, plain))
}

fn ask_plain(address: SocketAddr, question: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind((address.ip(), 0)).expect("a free port");
    socket.set_read_timeout(Some(crate::support::PATIENCE)).expect("not zero");
    socket.send_to(question, address).expect("a local address");
    let mut answer = [0; 64];
    let length = socket.recv(&mut answer).expect("an answer");
    answer[..length].to_vec()
}

/// The answer to a stream whose request is not served.
fn refused() -> Result<Vec<u8>, ReadToEndError> {
    Err(ReadToEndError::Read(ReadError::Reset(REFUSED.into())))
}

// Are the answers the same behind both doors, and the fates?
#[test]
fn both_doors_lead_to_the_handler() {
    let Some((server, plain)) = start(&["--request-max", "30"]) else { return };
    run(async {
        let client = server.client_of(ONE_DATAGRAM);
        let connection = server.connect(&client).await;
        for (question, answer) in [(&b"91?"[..], &b"7"[..]), (b"97?", b"97"), (b"1000036000099?", b"1000003")] {
            assert_eq!(ask_plain(plain, question), answer);
            assert_eq!(ask(&connection, question).await, Ok(answer.to_vec()));
        }
        // No question, and one that is too long.
        for question in [&b"91"[..], b"", &[b'1'; 31]] {
            assert_eq!(ask(&connection, question).await, refused(), "{question:?}");
        }
        UdpSocket::bind((plain.ip(), 0)).expect("a port").send_to(b"91", plain).expect("a local address");
        assert_eq!(ask_plain(plain, b"91?"), b"7");
        // The one that is too long is no request.
        server.await_ended("ignored", 3.0).await;
        server.await_ended("answered", 7.0).await;
        assert_eq!(ask(&connection, b"91?").await, Ok(b"7".to_vec()));
    });
}

// Are light requests of both doors served while one of the same connection computes, and does that
// end early once its client no longer waits?
#[test]
fn a_heavy_request_holds_up_no_other_one() {
    let Some((server, plain)) = start(&[]) else { return };
    run(async {
        let client = server.client_of(ONE_DATAGRAM);
        let connection = server.connect(&client).await;
        let (mut send, mut heavy) = connection.open_bi().await.expect("a stream");
        send.write_all(HEAVY).await.expect("it is open");
        send.finish().expect("it is open");
        let mut light = JoinSet::new();
        for _ in 0..20 {
            let connection = connection.clone();
            light.spawn(async move { ask(&connection, b"91?").await });
        }
        while let Some(answer) = light.join_next().await {
            assert_eq!(answer.expect("no panic"), Ok(b"7".to_vec()));
        }
        assert_eq!(ask_plain(plain, b"91?"), b"7");
        heavy.stop(0_u32.into()).expect("it has not ended");
        server.await_begun(21).await;
        assert_eq!(ask(&connection, b"91?").await, Ok(b"7".to_vec()));
    });
}

// Has the help the flags and the defaults of the README?
#[test]
fn its_flags_are_those_of_the_page() {
    let Some(mut command) = program() else { return };
    let help = String::from_utf8(command.arg("--help").output().expect("it starts").stdout).expect("text");
    assert!(help.starts_with("Answers `91?` with `7`"), "{help}");
    for flag in ["--alpn", "--request-max", "--reply-max"] {
        let after = help.split_once(&format!("{flag} ")).expect("it is there").1;
        let stated = after.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']')).expect("a default").0;
        assert!(PAGE.contains(&format!("`{flag} {stated}`")), "{flag} {stated}");
    }
}

// Does what is wrong with the settings of the door get an error that says what is allowed?
#[test]
fn a_wrong_door_is_named() {
    let Some(mut command) = program() else { return };
    let told = |arguments: &[&str], command: &mut Command| {
        let output = command.args(arguments).args(["--admin", "127.0.0.1:0"]).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = told(&["--listen", "127.0.0.1:0", "--quic", "127.0.0.2:0"], &mut command);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--cert") && said.contains("--key"), "{said}");
    let Some((server, _)) = start(&[]) else { return };
    let Some(mut command) = program() else { return };
    command.current_dir(server.directory());
    let certificate = ["--cert", "cert.pem", "--key", "key.pem"];
    let elsewhere = [&["--listen", "127.0.0.1:0", "--quic", "127.0.0.2:0"][..], &certificate].concat();
    let (code, said) = told(&elsewhere, &mut command);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("--quic 127.0.0.2:0; allowed: an address of --listen, 127.0.0.1:"), "{said}");
}
