//! When a running server reads its configuration again, does it apply the changes that are possible
//! at run time, and lose no request? Does a bad file change nothing? Method: the built binary,
//! SIGHUP, and files that the test rewrites. The full size: `FOREBAY_RELOAD=1000000 cargo test
//! --test alone reload:: -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use support::prelude::*;

const PER_SECOND: u64 = 20_000;

fn requests() -> u64 {
    let size = env::var("FOREBAY_RELOAD").map(|size| size.parse().expect("FOREBAY_RELOAD is a number of requests"));
    size.unwrap_or(PER_SECOND / 2)
}

fn refused(server: SocketAddr, cost: Nanos) -> bool {
    match Client::new(server).ask(&Header::request(1, 0, cost), b"").header.status {
        Status::Refused => true,
        Status::Ok => false,
        status => panic!("{status:?}"),
    }
}

#[test]
fn what_may_change_does() {
    let _alone = alone();
    let running = Configured::start("handler = \"echo\"\n");
    let (udp, admin) = (running.server.udp, running.server.admin);
    let config = running.config();
    assert_eq!((config["schema"].as_str(), &config["last_reload"]), (Some("forebay-config/1"), &Value::Null));
    assert!(!refused(udp, Nanos::from_millis(80)));
    let last = running.reload(
        "handler = \"spin\"\npolicy = \"levels\"\nslice = \"20us\"\ncost-cap = \"50ms\"\n\
         max-wait = \"250ms\"\nlog-level = \"warn\"\nunhealthy-after = \"0s\"\n",
    );
    assert_eq!(last["ok"], true);
    let changed = ["policy", "max-wait", "log-level", "slice", "unhealthy-after", "cost-cap"];
    assert_eq!(last["changed"].as_array().expect("a list"), &changed.map(Value::from));
    assert_eq!(last["restart_needed"], serde_json::json!(["handler"]));
    assert_eq!((running.value("handler"), running.value("policy")), ("echo".to_owned(), "levels".to_owned()));
    assert!(running.setting("slice").1.ends_with("line 3"));
    assert!(refused(udp, Nanos::from_millis(80)), "the cost cap counts");
    let body = latency(admin);
    assert_eq!((&body["policy"], &body["decision"]["budget_us"]), (&"levels".into(), &20.0.into()), "{body}");
    let text = page(admin, "/metrics");
    assert!(text.contains("\nforebay_max_wait_seconds 0.25\n"), "{text}");
    // A thread of its own writes the log, so the line may come later.
    let named = "take a restart settings=\"handler = spin\"";
    await_until(|| running.log().contains(named), "what takes a restart is not in the log");
    running.reload("handler = \"echo\"\nlog-level = \"error\"\n");
    let length = running.log().len();
    running.reload("handler = \"spin\"\nlog-level = \"error\"\n");
    assert_eq!(running.log().len(), length, "a warning is below the level");
    running.reload("log-level = \"info\"\nlame-duck = \"1h\"\n");
    await_until(|| running.log().len() > length, "the log is silent");
    running.server.signal(Signal::SIGTERM);
    let lame = (503, "lame duck\n".to_owned());
    await_until(|| ready(admin) == lame, "it is no lame duck, as the last file says");
    running.server.stop();
}

const GOOD: [&str; 2] = [
    "handler = \"echo\"\nmax-wait = \"off\"\npolicy = \"pools\"\n",
    "handler = \"echo\"\nmax-wait = \"off\"\npolicy = \"levels\"\nslice = \"1us\"\n",
];
const BAD: &str = "handler = \"echo\"\npolicy = \"steal\"\nslice = \"50\"\ncost-cap = \"1us\"\nspeed = 7\npools = \"front=2,heavy=2\"\n";

#[test]
fn a_reload_loses_nothing_and_a_bad_file_changes_nothing() {
    let _alone = alone();
    let (running, total) = (Configured::start(GOOD[0]), requests());
    let (became, ()) = answered_while(PER_SECOND, total, running.server.udp, |wait_for| {
        for round in 1..=10 {
            wait_for(total * round / 12);
            let before = running.config()["settings"].clone();
            let bad = running.reload(BAD);
            assert_eq!((bad["ok"].as_bool(), &running.config()["settings"]), (Some(false), &before));
            let problems = bad["problems"].as_array().expect("a list");
            let starts =
                ["speed = \"7\" (file ", "slice = \"50\" (file ", "workers = \"2\" (flag --workers) with pools"];
            assert_eq!(problems.len(), starts.len(), "{problems:?}");
            for (problem, start) in problems.iter().zip(starts) {
                let problem = problem.as_str().expect("text");
                assert!(problem.starts_with(start), "{problem}");
                await_until(|| running.log().contains(problem), &format!("not in the log: {problem}"));
            }
            assert_eq!(running.reload(GOOD[round as usize % 2])["ok"], true);
            let (policy, in_force) = (running.value("policy"), &latency(running.server.admin)["policy"]);
            assert!(policy == ["pools", "levels"][round as usize % 2] && *in_force == policy, "{in_force}");
        }
    });
    println!("{became:?}, {} reloads", running.config()["reloads"]);
}
