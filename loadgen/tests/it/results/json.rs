//! Does the JSON report have the keys that the contract names, and is no result lost in silence?
//! Method: runs in which a server answers everything or nothing, into files and standard output.

use crate::faulty::*;
use boon::{Compiler, Schemas};

#[test]
fn a_valid_run_has_bounds_and_exits_with_0() {
    // Latencies from 20 to 60 ms, in no order. Other tests disturb a schedule by much less.
    // Neighbours are not alike, so that the interval of the median keeps its width.
    let mut request = 0;
    let server = Server::start(move |_| {
        request += 17;
        vec![(Status::Ok, Nanos::from_millis(20 + request % 41))]
    });
    let (report, heard, output) =
        run(server, "--workload extreme-bimodal --rate 2000 --duration 2s --warmup 200ms --percentile 50");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(report["schema"], "forebay-loadgen/1");
    assert!(number(&report, "/sent") < heard.len() as f64, "the warm-up was sent and is not counted");
    assert!(report["policy"].is_null() && report["workers"].is_null(), "without --admin nobody told");
    let bounds = &report["latency_us"]["all"]["bounds"];
    let [low, high] = [0, 1].map(|end| bounds["p50"][end].as_f64());
    let p50 = report["latency_us"]["all"]["p50"].as_f64();
    assert!(low <= p50 && p50 <= high && low > Some(0.0), "{bounds}");
    // 4,000 requests can bound p99, and p99.9 in no case: four are above it.
    assert!(bounds["p99_9"][1].is_null(), "{bounds}");
    assert_eq!((report["verdict"].as_str(), output.status.code()), (Some("VALID"), Some(0)), "{stdout}");
    assert_eq!(report["reasons"], serde_json::json!([]), "{stdout}");
    assert!(stdout.lines().all(|line| line.chars().count() <= 100), "wider than 100 columns:\n{stdout}");
}

// Does what a run, a sweep and a search write fit the schema? Does the schema name each key, and
// does nothing fit that lacks one?
#[test]
fn results_fit_the_schema() {
    let (_, schema, _) = loadgen("schema");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
    compiler.add_resource("schema.json", schema.clone()).expect("a name");
    let of_results = compiler.compile("schema.json", &mut schemas).expect("a schema");
    let short = "--duration 200ms --warmup 0s --timeout 100ms --quiet --slo p50<900ms,loss<1% --json -";
    for (command, name) in [
        ("run --rate 1000 --cost extreme-bimodal", "RunReport"),
        ("run --rate 1000 --payload {counter:4}", "RunReport"),
        ("sweep --rates 1000,2000", "Series"),
        ("search --rate 1000 --max-time 1s", "Series"),
    ] {
        let server = generator::serve(|socket, asked, client| match Header::parse(asked) {
            Ok(_) => drop(reply(socket, asked, client)),
            Err(_) => drop(socket.send_to(asked, client)),
        });
        let (_, stdout, stderr) = loadgen(&format!("{command} {short} --target {server}"));
        let mut result: Value = serde_json::from_str(&stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"));
        schemas.validate(&result, of_results).unwrap_or_else(|error| panic!("{command}: {error:#}"));
        let named = schema["$defs"][name]["properties"].as_object().expect("properties");
        let keys = result.as_object_mut().expect("an object");
        assert!(keys.keys().all(|key| named.contains_key(key)), "{command}: {:?}", keys.keys());
        keys.remove(if name == "Series" { "runs" } else { "fates" });
        assert!(schemas.validate(&result, of_results).is_err(), "{command}");
    }
}

/// A run of 200 ms against a socket that answers nothing, with `flags` on top; what it prints, and
/// what it says beside.
fn unanswered(flags: &str) -> [String; 2] {
    let target = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let address = target.local_addr().expect("an address");
    let common = "--rate 200 --duration 200ms --warmup 0s --timeout 100ms --percentile 50 --quiet --target";
    let (_, stdout, stderr) = loadgen(&format!("run {common} {address} {flags}"));
    [stdout, stderr]
}

/// What an endpoint claims to have received when it is asked for the `nth` time. After the run it
/// is more than was sent, so that the generator does not wait for the rest.
fn received(nth: usize) -> u64 {
    if nth < 2 { 1 } else { 100_000 }
}

#[test]
fn a_minus_is_standard_output_and_people_read_on_standard_error() {
    let [stdout, stderr] = unanswered("--json -");
    let report: Value = serde_json::from_str(&stdout).expect("JSON and nothing else");
    assert_eq!(report["schema"], "forebay-loadgen/1");
    assert!(stderr.contains("answered/s of 200 offered/s"), "{stderr}");
}

#[test]
fn what_a_server_says_of_itself_cannot_write_on_the_terminal() {
    let admin = admin::endpoint(|nth| admin::body("\u{1b}[2Jsteal\r", received(nth), 0).to_string());
    let said = unanswered(&format!("--admin {admin}"));
    for text in &said {
        assert!(!text.contains(|character: char| character.is_control() && character != '\n'), "{text:?}");
    }
    assert!(said[0].contains(r"\u{1b}[2Jsteal\r"), "{said:?}");
}

// Does a run know where the server is that it asks? Method: an endpoint that names a socket of
// ours, and one that names none.
#[test]
fn without_a_target_the_admin_endpoint_names_it() {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a socket on loopback");
    let listen = server.local_addr().expect("an address").to_string();
    let named = listen.clone();
    let admin = admin::endpoint(move |nth| {
        let mut body = admin::body("steal", received(nth), 0);
        body["listen"] = named.as_str().into();
        body.to_string()
    });
    let flags = "run --rate 200 --duration 200ms --warmup 0s --timeout 100ms --quiet --admin";
    let (_, stdout, _) = loadgen(&format!("{flags} {admin}"));
    assert!(stdout.contains(&format!("server {listen}")), "{stdout}");
    server.set_nonblocking(true).expect("a flag");
    server.recv(&mut [0; 2_048]).expect("requests came here");

    let silent = admin::endpoint(|nth| admin::body("steal", received(nth), 0).to_string());
    let (code, _, stderr) = loadgen(&format!("{flags} {silent}"));
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("does not say where it receives: add --target HOST:PORT"), "{stderr}");
}
