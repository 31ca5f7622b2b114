//! Are two running servers compared by the same requests in turn, whatever their protocol? Method:
//! one server takes three times as long as the other.

use crate::faulty::*;
use crate::readme::RUN_COMPARE;
use support::generator::serve;
use support::pages::commands;
use support::script::shown;

const SHORT: &str = "--rate 400 --duration 500ms --warmup 0s --timeout 2s --rounds 3 --quiet --json - --html";

/// A comparison with `flags`: its JSON, what people read, and what Node makes of its page.
fn compared(a: SocketAddr, b: SocketAddr, flags: &str) -> (Value, String, Option<Value>) {
    compared_as(&format!("compare --a {a} --b {b} {flags}"))
}

fn compared_as(flags: &str) -> (Value, String, Option<Value>) {
    let page = tempfile::NamedTempFile::new().expect("a file");
    let line = format!("{flags} {SHORT} {}", page.path().display());
    let (code, stdout, text) = loadgen(line.trim());
    let report: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {text}"));
    // Whether a verdict is known depends on this machine, too.
    let is_known = report["verdicts"].as_array().is_some_and(|all| all.iter().any(|one| one["is_usable"] == true));
    assert_eq!(code, Some(if is_known { 0 } else { 3 }), "{text}");
    let page = std::fs::read_to_string(page.path()).expect("it was written");
    (report, text, shown(&page, &[]).map(|shown| shown[0].clone()))
}

// With costs by slowdown, in rounds of the same seed, and the second server against the first.
#[test]
fn two_servers_of_the_bench_protocol() {
    let server = |factor: u64| {
        let delay = move |id: u64| Nanos::from_millis(factor * (20 + id * 17 % 41));
        Server::start(move |request| vec![(Status::Ok, delay(request.id))]).address
    };
    let (a, b) = (server(1), server(3));
    let (report, text, page) = compared(a, b, "--cost fixed:1ms");
    let runs = report["runs"].as_array().expect("runs");
    let order: Vec<_> = runs.iter().map(|run| (run["arm"].as_str(), run["seed"].as_u64())).collect();
    let [a, b] = [a, b].map(|address| address.to_string());
    let expected = [1, 2, 3].map(|seed| [&a, &b].map(|arm| (Some(&arm[..]), Some(seed)))).concat();
    // Runs that do not count are repeated after the others.
    assert_eq!(order[..6], expected, "{text}");
    assert_eq!(runs[0]["sent"], runs[1]["sent"], "the same requests");
    let verdict = &report["verdicts"][0];
    assert_eq!((&verdict["policy"], &verdict["against"]), (&json!(b), &json!(a)));
    // Where the host was late, the ratio has one end or none.
    assert!(verdict["ratio"].as_f64().is_none_or(|ratio| (0.2..0.5).contains(&ratio)), "{verdict}");
    assert!(text.contains(&format!("Comparing {a} and {b}: fixed:1ms")), "{text}");
    assert!(text.contains("Measured: slowdown of all requests"), "{text}");
    let slowdown = number(&report, "/arms/1/slowdown/all/p50") / number(&report, "/arms/0/slowdown/all/p50");
    assert!((2.0..4.0).contains(&slowdown), "{slowdown}");
    assert!(page.is_none_or(|page| page["charts"]["lines"] == 2));
}

// Without costs by latency. Method: servers that answer at once, and after 20 ms.
#[test]
fn two_servers_of_another_protocol() {
    let at_once = serve(|socket, datagram, client| drop(socket.send_to(datagram, client)));
    let later = serve(|socket, datagram, client| {
        let (socket, datagram) = (socket.try_clone().expect("a descriptor"), datagram.to_vec());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            socket.send_to(&datagram, client)
        });
    });
    let (report, text, page) = compared(later, at_once, "--payload 01{counter:4} --percentile 50");
    assert!(report["arms"][0].get("slowdown").is_none() && number(&report, "/arms/0/latency_us/all/p50") >= 20_000.0);
    assert!(text.contains("Measured: latency, us of all requests"), "{text}");
    assert!(text.contains("- all requests: ") && text.contains(&at_once.to_string()), "{text}");
    assert!(
        page.is_none_or(|page| page["charts"]["text"]
            .as_str()
            .is_some_and(|text| text.contains("latency, us, of all")))
    );
}

// Does the command of the page run? Method: with servers that answer each question.
#[test]
fn the_command_of_the_page() {
    let [a, b] = [(); 2].map(|()| {
        serve(|socket, asked, client| drop(socket.send_to(&[&asked[..2], &[0x81], &asked[3..]].concat(), client)))
    });
    let commands = commands().into_iter().filter_map(|line| line.strip_prefix(RUN_COMPARE).map(str::to_owned));
    let [line] = &commands.collect::<Vec<_>>()[..] else { panic!("one command is known") };
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "www.example A\n").expect("written");
    let line = line.replace("127.0.0.1:5301", &a.to_string()).replace("127.0.0.1:5302", &b.to_string());
    let line = line.replace("questions.txt", &file.path().display().to_string()).replace(" --rate 1000", "");
    let (report, text, _) = compared_as(&format!("compare {line}"));
    assert_eq!(report["runs"][0]["fates"]["answered"], report["runs"][0]["sent"], "{text}");
}
