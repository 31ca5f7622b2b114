//! Does a run speak other protocols than the bench protocol, and tell apart what answers a request
//! and what does not? Method: servers that answer, repeat, lose and forge.

use crate::support::generator::{run, serve};
use crate::support::script::shown;
use crate::support::*;

/// Half a second of requests, all of which count.
const SHORT: &str = "--rate 1000 --duration 500ms --warmup 0s --timeout 300ms --percentile 50";

fn fate(run: &Run, name: &str) -> u64 {
    number(&run.report, &format!("/fates/{name}")) as u64
}

// Method: a server that answers each class, and the counter at another place than it came; two
// answers, a forged counter and one of another length for a few.
#[test]
fn payloads_of_two_classes_are_answered() {
    let server = serve(|socket, datagram, client| {
        let (head, counter) = datagram.split_at(datagram.len() - 4);
        let answer = [counter, head].concat();
        let count = u32::from_be_bytes(counter.try_into().expect("four bytes"));
        // What a client that has gone does not hear is no concern of ours.
        let send = |bytes: &[u8]| drop(socket.send_to(bytes, client));
        if count % 100 == 0 {
            [&answer[..], &u32::MAX.to_be_bytes(), b"no"].into_iter().for_each(send);
        }
        if count % 10 != 1 {
            send(&answer);
        }
    });
    let page = tempfile::NamedTempFile::new().expect("a file");
    let flags = "--payload asks=0.9@ab{counter:4} --payload 0.1@abcd{class:1}{counter:4} --match prefix:4 --html";
    let run = run(server, &format!("{SHORT} {flags} {}", page.path().display()));
    let sent = number(&run.report, "/sent") as u64;
    let every = |nth: u64, from: u64| (from..sent).step_by(nth as usize).count() as u64;
    assert_eq!((fate(&run, "answered"), fate(&run, "lost")), (sent - every(10, 1), every(10, 1)), "{}", run.report);
    assert_eq!(number(&run.report, "/duplicates") as u64, every(100, 0));
    assert_eq!(number(&run.report, "/foreign") as u64, 2 * every(100, 0));
    let share = number(&run.report, "/latency_us/asks/count") / number(&run.report, "/latency_us/all/count");
    assert!((share - 0.9).abs() < 0.06, "{share}");
    assert!(run.report["latency_us"]["payload2"]["p50"].is_number() && run.report["slowdown"].is_null());
    let text = String::from_utf8_lossy(&run.output.stdout);
    assert!(
        text.starts_with("0.900 asks + 0.100 payload2 at 1,000 requests/s") && !text.contains("slowdown"),
        "{text}"
    );
    let page = std::fs::read_to_string(page.path()).expect("it was written");
    if let Some(shown) = shown(&page, &[]) {
        assert_eq!(shown[0]["charts"]["lines"], 3 + 2, "latency of each class, requests sent and answered");
    }
}

// Is an answer that repeats nothing taken for the last request of its flow, and is the run INVALID
// where that is a guess? Method: many flows and few, and a server that takes 20 ms.
#[test]
fn answers_that_repeat_nothing() {
    let late = || {
        let (queue, due) = std::sync::mpsc::channel::<(Nanos, SocketAddr, UdpSocket)>();
        std::thread::spawn(move || {
            for (at, client, socket) in due {
                std::thread::sleep(at.minus(clock::now()).into());
                drop(socket.send_to(b"pong", client));
            }
        });
        serve(move |socket, _, client| {
            let socket = socket.try_clone().expect("a descriptor");
            queue.send((clock::now().plus(Nanos::from_millis(20)), client, socket)).expect("it is read");
        })
    };
    let of = |flows| run(late(), &format!("{SHORT} --payload 70696e67 --match none --flows {flows}"));
    let sure = of(4_000);
    assert_eq!(fate(&sure, "answered"), number(&sure.report, "/sent") as u64, "{}", sure.reasons());
    assert!(!sure.reasons().contains("waited for several") && number(&sure.report, "/latency_us/all/p50") >= 20_000.0);
    of(2).is_invalid("waited for several, above 1 %, and --match none cannot tell");
}
