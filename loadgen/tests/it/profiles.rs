//! Does a run speak other protocols than the bench protocol, and tell apart what answers a request
//! and what does not? Method: servers that answer, repeat, lose and forge.

mod capture;
mod sessions;

use crate::faulty::*;
use crate::readme::RUN_RUN;
use loadgen::compare::server_process::ServerProcess;
use support::generator::{run, serve};
use support::pages::commands;
use support::script::shown;
use support::skip::skip;

/// Half a second of requests, all of which count.
const SHORT: &str = "--rate 1000 --duration 500ms --warmup 0s --timeout 300ms --percentile 50";

fn fate(run: &Run, name: &str) -> u64 {
    number(&run.report, &format!("/fates/{name}")) as u64
}

// Method: a server that answers with the counter at another place. A few requests get two answers,
// a forged counter and a short answer.
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
        assert_eq!(shown[0]["charts"]["lines"], 3, "latency of each class; one second is no line");
    }
}

/// A server that sends back what it gets, this much later.
fn late_echo(late: Nanos) -> SocketAddr {
    let (queue, due) = std::sync::mpsc::channel::<(Nanos, SocketAddr, Vec<u8>, UdpSocket)>();
    std::thread::spawn(move || {
        for (at, client, datagram, socket) in due {
            std::thread::sleep(at.minus(clock::now()).into());
            drop(socket.send_to(&datagram, client));
        }
    });
    serve(move |socket, datagram, client| {
        let socket = socket.try_clone().expect("a descriptor");
        queue.send((clock::now().plus(late), client, datagram.to_vec(), socket)).expect("it is read");
    })
}

// Is an answer that repeats nothing taken for the last request of its flow, and is the run INVALID
// where that is a guess? Method: many flows and few, and a server that takes 20 ms.
#[test]
fn answers_that_repeat_nothing() {
    let of = |flows| {
        let flags = format!("{SHORT} --payload 70696e67 --match none --flows {flows}");
        run(late_echo(Nanos::from_millis(20)), &flags)
    };
    let sure = of(4_000);
    assert_eq!(fate(&sure, "answered"), number(&sure.report, "/sent") as u64, "{}", sure.reasons());
    assert!(!sure.reasons().contains("waited for several") && number(&sure.report, "/latency_us/all/p50") >= 20_000.0);
    of(2).is_invalid("waited for several that they fit, above 1.00 %, and they do not tell");
}

// Are replies doubtful whose short number several open requests have, also those that come after
// the timeout? Is that said before the run? Method: a counter of one byte repeats after 256 ms in
// one flow, and replies come 600 ms late. With two bytes nothing is in doubt.
#[test]
fn a_counter_that_wraps_before_its_replies_come() {
    for (timeout, told) in [("1s", true), ("200ms", false)] {
        let flags = "--payload 01{counter:1}aabb --flows 1 --rate 1000 --duration 2s --warmup 0s --timeout";
        let wraps = run(late_echo(Nanos::from_millis(600)), &format!("{flags} {timeout}"));
        wraps.is_invalid("replies came while their flow waited for several that they fit");
        let doubtful = number(&wraps.report, "/doubtful");
        assert!(doubtful > 0.5 * number(&wraps.report, "/sent"), "{doubtful}");
        let text = String::from_utf8_lossy(&wraps.output.stdout).into_owned();
        assert!(text.contains(" replies doubtful: they fit several open requests"), "{text}");
        let said = String::from_utf8_lossy(&wraps.output.stderr).into_owned();
        let warning = "warning: 256 values x 1 flows at 1,000/s repeat after 256 ms, within the timeout of 1s;";
        assert_eq!(said.contains(warning), told, "{said}");
    }
    let flags = "--payload 01{counter:2}aabb --flows 1 --rate 1000 --duration 1s --warmup 0s --timeout 1s";
    let plain = run(late_echo(Nanos::from_millis(600)), flags);
    assert_eq!(number(&plain.report, "/doubtful"), 0.0, "{}", plain.reasons());
    assert!(number(&plain.report, "/latency_us/all/p50") >= 600_000.0, "{}", plain.report["latency_us"]);
}

// Method: the example servers, where cargo has built them.
#[test]
fn the_examples_answer() {
    let is_built = |name: &str| LOADGEN.path().with_file_name("examples").join(name).exists();
    for (example, flags, profile, code, fate_of_all) in [
        ("ntp", "127.0.0.1:0", "ntp", "synchronised", "answered"),
        ("stun", "127.0.0.1:0", "stun", "success", "answered"),
        ("tracker", "127.0.0.1:0", "bittorrent", "connected", "answered"),
        ("coap", "--listen 127.0.0.1:0 --admin 127.0.0.1:0", "coap=/hello", "2.05", "answered"),
        ("coap", "--listen 127.0.0.1:0 --admin 127.0.0.1:0", "coap=factors?91", "2.05", "answered"),
        ("coap", "--listen 127.0.0.1:0 --admin 127.0.0.1:0", "coap", "4.04", "refused"),
    ] {
        if !is_built(example) {
            skip(format_args!("the example {example} is not built: cargo build --examples makes it"));
            continue;
        }
        let mut command = Command::new(LOADGEN.path().with_file_name("examples").join(example));
        command.args(flags.split(' '));
        let server = ServerProcess::launch(command, false).expect("the example starts");
        let run = run(server.udp, &format!("{SHORT} --profile {profile}"));
        let sent = number(&run.report, "/sent") as u64;
        assert_eq!(fate(&run, fate_of_all), sent, "{profile}: {}", run.report["fates"]);
        // Whether the clock of this host is synchronised is no concern of ours.
        let said = run.report["codes"].as_object().expect("codes").iter();
        let said = said.filter_map(|(name, count)| name.ends_with(code).then(|| count.as_u64()).flatten());
        assert_eq!((said.sum::<u64>(), number(&run.report, "/foreign")), (sent, 0.0), "{}", run.report["codes"]);
    }
}

// Is only a reply that comes over the flow of its question, and repeats identifier and question, an
// answer, and is each code told? Method: a server that does one thing wrong with some questions.
#[test]
fn a_reply_of_dns_repeats_identifier_and_question() {
    let (asked, heard) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, names) = (Arc::clone(&asked), Arc::clone(&heard));
    let mut last = None;
    let server = serve(move |socket, question, client| {
        let kind = count.fetch_add(1, Ordering::SeqCst) % 50;
        let (header, rest) = question.split_at(12);
        assert_eq!(header[2..], [1, 0, 0, 1, 0, 0, 0, 0, 0, 0], "recursion is desired, one question");
        match rest {
            b"\x03www\x07example\x00\x00\x01\x00\x01" => {}
            b"\x07example\x00\x00\x41\x00\x01" => drop(names.fetch_add(1, Ordering::SeqCst)),
            _ => panic!("{rest:?}"),
        }
        let mut reply = question.to_vec();
        reply[2] |= 0x80;
        let mut peer = client;
        match kind {
            0 => drop(socket.send_to(&reply, client)),
            1 => reply[13] ^= 1,
            2 => reply[0] ^= 0x80,
            3 => peer = last.filter(|last| *last != client).unwrap_or(client),
            4 => reply[2] = 1,
            5 => reply[3] = 2,
            6 => reply[3] = 5,
            7 => reply[3] = 3,
            _ => {}
        }
        last = Some(client);
        // A client that has gone is no concern of the server's.
        let _ = socket.send_to(&reply, peer);
    });
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "; a comment\nwww.example A\n\nexample. HTTPS\n").expect("written");
    let run = run(server, &format!("{SHORT} --flows 1000 --profile dns={}", file.path().display()));
    let sent = number(&run.report, "/sent") as u64;
    assert_eq!((asked.load(Ordering::SeqCst), heard.load(Ordering::SeqCst)), (sent, sent / 2), "in turn");
    let of = |kind: u64| (kind..sent).step_by(50).count() as u64;
    let wrong = of(1) + of(2) + of(3) + of(4);
    assert_eq!((fate(&run, "lost"), number(&run.report, "/foreign") as u64), (wrong, wrong), "{}", run.report["fates"]);
    assert_eq!(number(&run.report, "/duplicates") as u64, of(0));
    assert_eq!((fate(&run, "failed"), fate(&run, "refused")), (of(5), of(6)));
    let plain = sent - wrong - of(5) - of(6) - of(7);
    let codes = json!({"NOERROR": plain, "NXDOMAIN": of(7), "SERVFAIL": of(5), "REFUSED": of(6)});
    assert_eq!((&run.report["codes"], fate(&run, "answered")), (&codes, plain + of(7)));
    run.is_invalid("is it a server of the DNS protocol?");
    let text = String::from_utf8_lossy(&run.output.stdout);
    assert!(text.starts_with("dns=/") && text.contains(" at 1,000 requests/s"), "{text}");
    assert!(text.contains(&format!("the server said: {plain} NOERROR, {} NXDOMAIN", of(7))), "{text}");
}

/// What a server of each profile says; others send back what came.
fn reply_of_its_kind(asked: &[u8]) -> Vec<u8> {
    match (asked.len(), &asked[..4]) {
        (48, _) => [&[0x24; 24], &asked[40..], &[0; 16]].concat(),
        (1_200, _) => [&[0x80, 0, 0, 0, 0], &asked[5..]].concat(),
        (16, _) => [&asked[8..], &[7; 8]].concat(),
        (20, _) => [&[1, 1, 0, 0], &asked[4..]].concat(),
        (_, [0x48, 1, ..]) => [&[0x68, 0x45], &asked[2..12]].concat(),
        (_, [_, _, 1, 0]) => [&asked[..2], &[0x81], &asked[3..]].concat(),
        _ => asked.to_vec(),
    }
}

// Does each command of the page do what the page says? Method: for a fifth of a second each, with
// one server for all profiles.
#[test]
fn commands_of_the_page_are_answered() {
    let server = serve(|socket, asked, client| drop(socket.send_to(&reply_of_its_kind(asked), client)));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("questions.txt"), "www.example.com A\n_sip._udp.example.com SRV\n")
        .expect("written");
    let commands: Vec<String> = commands().into_iter().filter(|command| command.starts_with(RUN_RUN)).collect();
    std::fs::copy(capture::capture().path(), folder.path().join("captured.pcap")).expect("copied");
    assert_eq!(commands.len(), 17);
    for line in commands {
        let words = line[RUN_RUN.len()..].split_whitespace().map(|word| word.trim_matches('\''));
        let mut command = Command::new(LOADGEN.path());
        command.current_dir(folder.path()).args(["run", "--target", &server.to_string(), "--json", "-"]);
        // Two words name the target of the page.
        command.args(words.skip(2)).args("--percentile 50 --quiet".split(' '));
        // A replay lasts as long as what it replays.
        if !line.contains("--replay") {
            command.args("--duration 200ms --warmup 0s".split(' '));
        }
        let output = command.output().expect("loadgen runs");
        let said = String::from_utf8_lossy(&output.stderr);
        let report: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {said}"));
        assert_eq!((&report["fates"]["answered"], &report["foreign"]), (&report["sent"], &json!(0)), "{line}: {said}");
    }
}
