//! Are handshakes driven and timed apart from the requests of their flow? Method: the server of
//! the example, and one that loses and forges.

use crate::faulty::*;
use loadgen::compare::server_process::ServerProcess;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::generator::{Generator, run, serve};
use support::skip::skip;

const FLAGS: &str = "--rate 1000 --warmup 1s --duration 1s --flows 100 --timeout 300ms --percentile 50";

fn count(run: &Run, class: &str) -> f64 {
    number(&run.report, &format!("/latency_us/{class}/count"))
}

/// The example with further flags, if it is built.
fn example(flags: &str) -> Option<ServerProcess> {
    let example = LOADGEN.path().with_file_name("examples").join("sessions");
    if !example.exists() {
        skip(format_args!("the example sessions is not built: cargo build --examples makes it"));
        return None;
    }
    let mut command = Command::new(example);
    command.args("--listen 127.0.0.1:0 --admin 127.0.0.1:0".split(' ')).args(flags.split_whitespace());
    Some(ServerProcess::launch(command, false).expect("the example starts"))
}

#[test]
fn the_example_opens_sessions_and_answers_messages() {
    let Some(server) = example("") else { return };
    let run = run(server.udp, &format!("{FLAGS} --profile sessions=0.1"));
    let report = &run.report;
    assert_eq!(number(report, "/fates/answered"), number(report, "/sent"), "{}", report["fates"]);
    assert_eq!((number(report, "/foreign"), number(report, "/duplicates")), (0.0, 0.0));
    let codes = json!({"opened": count(&run, "handshake") as u64, "answered": count(&run, "message") as u64});
    assert_eq!(report["codes"], codes);
    assert!((0.05..0.2).contains(&(count(&run, "handshake") / count(&run, "all"))), "{codes}");
}

// Does no session end whose client goes on while the server stands still? Method: the server is
// stopped for longer than a session lives without a message, and its clients send meanwhile.
#[test]
fn a_pause_of_the_server_ends_no_session() {
    let Some(server) = example("--idle 2s") else { return };
    let flags = "--rate 80 --warmup 1s --duration 7s --flows 8 --timeout 5s --percentile 50 --profile sessions=0.001";
    let generator = Generator::start(server.udp, flags);
    let id = Pid::from_raw(server.id().cast_signed());
    std::thread::sleep(Duration::from_secs(3));
    kill(id, Signal::SIGSTOP).expect("a running process");
    std::thread::sleep(Duration::from_secs(3));
    kill(id, Signal::SIGCONT).expect("a stopped process");
    let report = generator.finish().report;
    assert_eq!(number(&report, "/fates/answered"), number(&report, "/sent"), "{}", report["fates"]);
    // A session that another one of its flow has replaced may end.
    let (ended, replaced) = (number(&report, "/foreign"), number(&report, "/latency_us/handshake/count"));
    assert!(ended <= replaced && replaced < 5.0, "{ended} notices that a session has ended, and {replaced} replaced");
}

// Is a handshake as long as both of its round trips? Is an answer with a forged tag none? Method: a
// server that takes 1 ms for each step of a handshake.
#[test]
fn a_handshake_ends_with_its_last_step() {
    let (asked, mut opened) = (Arc::new(AtomicU64::new(0)), 0_u64);
    let messages = Arc::clone(&asked);
    let server = serve(move |socket, datagram, client| {
        let mut reply = match datagram[0] {
            b'H' => [&b"C"[..], &[7; 32]].concat(),
            b'O' => {
                assert_eq!(datagram[1..], [7; 32], "the cookie");
                opened += 1;
                [&b"S"[..], &opened.to_be_bytes()].concat()
            }
            // A flow may have no session yet.
            _ if datagram[1..9] == [0; 8] => return,
            _ => datagram.to_vec(),
        };
        if reply[0] == b'D' {
            // Its tag is that of a request.
            reply[0] = b'd';
            messages.fetch_add(1, Ordering::SeqCst);
        } else {
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(socket.send_to(&reply, client));
    });
    let run = run(server, &format!("{FLAGS} --profile sessions=0.05"));
    assert_eq!(number(&run.report, "/fates/answered"), number(&run.report, "/codes/opened"), "{}", run.report["codes"]);
    assert!(asked.load(Ordering::SeqCst) > 500 && number(&run.report, "/foreign") > 500.0, "forged tags");
    assert!(number(&run.report, "/latency_us/handshake/p50") >= 2_000.0, "two steps of 1 ms each");
    run.is_invalid("is it a server of the sessions example's protocol?");
    let (code, _, stderr) = loadgen("run --profile sessions=1 --rate 9");
    assert!(code == Some(2) && stderr.contains("the share of handshakes, 0.001 to 0.999"), "{stderr}");
}
