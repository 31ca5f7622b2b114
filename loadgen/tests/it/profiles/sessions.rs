//! Are handshakes driven and timed apart from the requests of their flow? Method: the server of
//! the example, and one that loses and forges.

use crate::faulty::*;
use loadgen::compare::server_process::ServerProcess;
use support::generator::{run, serve};
use support::skip::skip;

const FLAGS: &str = "--rate 1000 --warmup 1s --duration 1s --flows 100 --timeout 300ms --percentile 50";

fn count(run: &Run, class: &str) -> f64 {
    number(&run.report, &format!("/latency_us/{class}/count"))
}

#[test]
fn the_example_opens_sessions_and_answers_messages() {
    let example = LOADGEN.path().with_file_name("examples").join("sessions");
    if !example.exists() {
        return skip(format_args!("the example sessions is not built: cargo build --examples makes it"));
    }
    let mut command = Command::new(example);
    command.args("--listen 127.0.0.1:0 --admin 127.0.0.1:0".split(' '));
    let server = ServerProcess::launch(command, false).expect("the example starts");
    let run = run(server.udp, &format!("{FLAGS} --profile sessions=0.1"));
    let report = &run.report;
    assert_eq!(number(report, "/fates/answered"), number(report, "/sent"), "{}", report["fates"]);
    assert_eq!((number(report, "/foreign"), number(report, "/duplicates")), (0.0, 0.0));
    let codes = json!({"opened": count(&run, "handshake") as u64, "answered": count(&run, "message") as u64});
    assert_eq!(report["codes"], codes);
    assert!((0.05..0.2).contains(&(count(&run, "handshake") / count(&run, "all"))), "{codes}");
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
