//! Do the pages tell what helpers do, and which requests and shards wait for them? Method: work
//! aside waits until the test ends it, or uses CPU time. All servers of a process share the
//! helpers.

use forebay::handler::aside;
use forebay::{Event, Out, Service};
use std::sync::mpsc::{Receiver, Sender, channel};
use support::prelude::*;

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// The CPU time of a request's work aside.
const WORK: Nanos = Nanos::from_millis(30);

/// The work of 'w' ends when the test says so, and so does that of 't'. But 't' does not wait for
/// it for longer than 300 ms. The work of 'c' uses a CPU. 'w' has a class of its own. Without room
/// the answer is 'f'.
struct Aside(Arc<Mutex<Receiver<()>>>);

impl Aside {
    fn new() -> (Aside, Sender<()>) {
        let (release, held) = channel();
        (Aside(Arc::new(Mutex::new(held))), release)
    }
}

impl Handler for Aside {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).class(u8::from(arrival.bytes() != b"w")))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let held = Arc::clone(&self.0);
        let waits = move || _ = held.lock().expect("no panic").recv();
        let had_room = match request.bytes() {
            b"w" => aside(waits).await.is_ok(),
            b"t" => timeout(MS(300), aside(waits)).await.is_none_or(|made| made.is_ok()),
            _ => aside(works).await.is_ok(),
        };
        reply.put(if had_room { request.bytes() } else { b"f" }).expect("as long");
    }
}

/// Uses a CPU for [`WORK`].
fn works() {
    let until = clock::of_thread().plus(WORK);
    while clock::of_thread() < until {
        std::hint::spin_loop();
    }
}

fn figure(body: &Value, path: &str) -> f64 {
    body.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {body}"))
}

/// The requests of a list of `/slow` as text: place or cause, and what is said of the culprit.
fn told(list: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let entry = |entry: &Value| (text(&entry["place"]), text(&entry["culprit"]["text"]));
    list.as_array().expect("a list").iter().map(entry).collect()
}

// If all helpers have work that never ends and other work waits, is the server not ready, and are
// helpers named as the cause? Do the ages of the work grow? Is all well once the work has ended?
#[test]
fn work_that_never_ends_is_told() {
    let _alone = alone();
    let (handler, release) = Aside::new();
    let server = Running::on(bound(&[("workers", "1"), ("policy", "levels"), ("unhealthy-after", "4s")]), handler);
    let client = client(&server);
    let helpers = || latency(server.admin)["helpers"].clone();
    let refused_before = figure(&helpers(), "/refused");
    let sent = occupy(&client, helpers);
    // Of those that give up their work, one at least waited for a helper.
    let mut gave_up = Value::Null;
    await_until(
        || {
            let slowest = slow(&server)["slowest"].take();
            let of_helper = |late: &&Value| late["class"] == 1 && late["culprit"]["cause"] == "helper";
            gave_up = slowest.as_array().expect("a list").iter().find(of_helper).cloned().unwrap_or_default();
            !gave_up.is_null()
        },
        "no wait for a helper is explained",
    );
    assert!(figure(&gave_up, "/for_helper_us") >= 250e3 && figure(&gave_up, "/on_helper_us") == 0.0, "{gave_up}");
    assert!(figure(&gave_up, "/queue_us") < figure(&gave_up, "/for_helper_us"), "{gave_up}");

    await_until(|| ready(server.admin).0 == 503, "the server stays ready");
    let (_, said) = ready(server.admin);
    let now = helpers();
    let threads = &now["threads"];
    assert!(
        said.starts_with(&format!("stuck: each of the {threads} helper threads is busy with the same work")),
        "{said}"
    );
    // A reading of these ages came before the one of this test.
    assert!(figure(&now, "/oldest_waiting_us") >= 3e6 && figure(&now, "/oldest_running_us") >= 3e6, "{now}");
    let oldest = |state| metric(&server.metrics(), &format!("forebay_helper_oldest_seconds{{state=\"{state}\"}}"));
    for state in ["waiting", "running"] {
        let before = oldest(state);
        assert!(before >= 3.0 && oldest(state) > before, "{state}: {before} s");
    }
    let waiting = told(&slow(&server)["waiting"]);
    let at = |place: &str| waiting.iter().filter(|(at, _)| at == place).collect::<Vec<_>>();
    assert!(!at("on a helper").is_empty() && !at("waiting for a helper").is_empty(), "{waiting:?}");
    let all_blamed = at("waiting for a helper")
        .iter()
        .all(|(_, why)| why.starts_with("no helper was free for ") && why.contains(": helpers did work of request "));
    assert!(all_blamed, "{waiting:?}");
    let healthy = || http(server.admin, "GET /healthz").expect("an answer").status == 200;
    await_until(|| !healthy(), "the server stays healthy");

    drop(release);
    assert_well_again(&server, &client, sent, refused_before);
}

/// Sends requests until all helpers have work that does not end, and other work waits. Returns how
/// many, which are more than there are helpers.
fn occupy(client: &UdpSocket, helpers: impl Fn() -> Value) -> u64 {
    let mut sent = 0;
    await_until(
        || {
            let now = helpers();
            let all_busy = now["running"] == now["threads"] && figure(&now, "/waiting") >= 2.0;
            if !all_busy {
                client.send([b"w", b"t"][sent as usize % 2]).expect("the server's port is open");
                sent += 1;
            }
            all_busy
        },
        "helpers never have enough to do",
    );
    sent
}

/// Asserts that all `sent` requests end once their work may end, and that the server says so. Work
/// of `refused_before` requests was refused before.
fn assert_well_again(server: &Running, client: &UdpSocket, sent: u64, refused_before: f64) {
    let helpers = || latency(server.admin)["helpers"].clone();
    let healthy = || http(server.admin, "GET /healthz").expect("an answer").status == 200;
    let replies: Vec<String> = (0..sent).map(|_| receive(client)).collect();
    let refused = replies.iter().filter(|reply| *reply == "f").count() as f64;
    assert_eq!(figure(&helpers(), "/refused") - refused_before, refused, "{replies:?}");
    await_until(|| ready(server.admin) == (200, "ready\n".to_owned()) && healthy(), "the server never gets ready");
    await_until(|| figure(&helpers(), "/running") == 0.0 && figure(&helpers(), "/waiting") == 0.0, "work is left");
    await_until(|| latency(server.admin)["since_start"]["aside"]["all"]["count"] == sent, "not all are counted");
    let body = latency(server.admin);
    assert!(figure(&body, "/since_start/aside/short/max") >= 3e6, "{body}");
    assert!(figure(&body, "/since_start/queue/short/max") < figure(&body, "/since_start/aside/short/max"), "{body}");
    assert!(
        page(server.admin, "/latency?text").lines().any(|line| line.starts_with("aside ")),
        "no table of the stage"
    );
    // Those that were on a helper did not use its CPU, and the others waited for one. A host
    // without a CPU for the worker may have delayed requests that took no time aside.
    let slow = slow(server);
    let causes: BTreeSet<_> = causes(&slow);
    assert!(causes.contains("helper") && causes.contains("aside"), "{causes:?}");
    for entry in slow["slowest"].as_array().expect("a list") {
        let aside = figure(entry, "/for_helper_us") + figure(entry, "/on_helper_us");
        let cause = entry["culprit"]["cause"].as_str();
        let is_aside = [Some("helper"), Some("aside")].contains(&cause);
        // The CPU time that a helper has used is no part of what it explains.
        let share = aside / figure(entry, "/delay_us");
        assert!(if is_aside { share >= 0.49 } else { share < 0.6 }, "{share}: {entry}");
    }
    server.quiescent(sent);
}

fn slow(server: &Running) -> Value {
    serde_json::from_str(&page(server.admin, "/slow")).expect("JSON")
}

fn causes(slow: &Value) -> BTreeSet<String> {
    let cause = |entry: &Value| entry["cause"].as_str().expect("text").to_owned();
    slow["blocked"].as_array().expect("a list").iter().map(cause).collect()
}

// Does the time of work aside count in a stage of its own, and neither as queue nor as service? Is
// the CPU time of helpers known?
#[test]
fn work_aside_is_a_stage() {
    let _alone = alone();
    let (handler, _release) = Aside::new();
    let server = Running::on(bound(&[("workers", "1"), ("policy", "levels")]), handler);
    let client = client(&server);
    let cpu = || metric(&server.metrics(), "forebay_helper_cpu_seconds_total");
    let done = || metric(&server.metrics(), "forebay_helper_work_total{result=\"done\"}");
    assert_eq!(ask_from(&client, "c"), "c");
    let before = (cpu(), done());
    const REQUESTS: u64 = 20;
    (1..REQUESTS).for_each(|_| assert_eq!(ask_from(&client, "c"), "c"));
    // A helper uses more CPU time than its work.
    let work = WORK.as_secs_f64() * (REQUESTS - 1) as f64;
    assert!(cpu() - before.0 >= work, "{} s of {work} s", cpu() - before.0);
    assert_eq!(done() - before.1, (REQUESTS - 1) as f64);
    await_until(|| latency(server.admin)["since_start"]["total"]["all"]["count"] == REQUESTS, "not all are counted");
    let body = latency(server.admin);
    let of = |stage: &str, figure: &str| body["since_start"][stage]["long"][figure].as_f64().expect("a time");
    // The helper may begin while the worker still sets the request aside, which is service time.
    assert!(of("aside", "p50") + of("service", "max") >= WORK.as_micros_f64(), "{body}");
    assert!(of("total", "max") >= of("aside", "max"), "{body}");
    // The worker wakes, and works for microseconds, even on a busy host in half of the cases.
    assert!(of("queue", "p50") < of("aside", "p50") && of("service", "p50") < of("aside", "p50"), "{body}");
    assert_eq!(of("aside", "count"), REQUESTS as f64);
    let text = server.metrics();
    let sum = |stage: &str| metric(&text, &format!("forebay_latency_seconds_sum{{stage=\"{stage}\",class=\"long\"}}"));
    let parts: f64 = ["kernel", "queue", "service", "aside", "send"].into_iter().map(sum).sum();
    assert!((parts - sum("total")).abs() < 1e-6, "{parts} s and {} s", sum("total"));
    let both = sum("aside") + sum("service");
    assert!(both >= WORK.as_secs_f64() * REQUESTS as f64, "{both} s");
}

/// A request is its shard, and 'w' to hold the shard until the test ends its work aside.
struct Shards(Aside);

impl Service for Shards {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    const SHARDS: usize = 200;

    fn shard(&self, _: usize) {}

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(arrival.bytes()[0].into()).class(u8::from(arrival.bytes()[1] != b'w')))
    }

    async fn handle(&self, (): &mut (), event: Event<'_>, out: &mut Out<'_>) {
        let Event::Datagram(request) = event else { return };
        if request.bytes()[1] == b'w' {
            let held = Arc::clone(&self.0.0);
            assert!(aside(move || _ = held.lock().expect("no panic").recv()).await.is_ok(), "there is room");
        }
        out.reply().put(request.bytes()).expect("as long");
    }
}

// Does each event that waits for work aside have its shard beside it on `/slow`? Does each event
// that waits for such a shard name the shard, and what the request that holds it waits for? Does
// `/readyz` name the shards, the oldest first?
#[test]
fn a_shard_that_waits_for_work_aside_is_named() {
    let _alone = alone();
    assert!((0..3).any(|_| are_shards_named()), "work aside is refused each time");
}

/// False if work aside was refused: on a host so busy that helpers begin half a second apart, it
/// would come too late.
fn are_shards_named() -> bool {
    let (handler, release) = Aside::new();
    let server = Running::on(bound(&[("workers", "1"), ("policy", "levels")]), Shards(handler));
    let client = client(&server);
    let helpers = || latency(server.admin)["helpers"].clone();
    let mut shards = 0;
    let is_refused = || latency(server.admin)["fates"]["failed"] != 0;
    await_until(
        || {
            let now = helpers();
            let all_busy = now["running"] == now["threads"] && figure(&now, "/waiting") >= 2.0 || is_refused();
            if !all_busy {
                // Work of the one before waits or runs.
                let before = figure(&now, "/running") + figure(&now, "/waiting");
                (before as u8 == shards).then(|| client.send(&[shards, b'w']).expect("the server's port is open"));
                shards += u8::from(before as u8 == shards);
            }
            all_busy
        },
        "helpers never have enough to do",
    );
    if is_refused() {
        drop(release);
        return false;
    }
    let [on_helper, waiting] = [0, shards - 1];
    for shard in [on_helper, waiting] {
        client.send(&[shard, b'-']).expect("the server's port is open");
    }
    let mut list = Vec::new();
    let (works, waits) = (format!("on a helper, with shard {on_helper}"), "waiting for a helper");
    await_until(
        || {
            list = slow(&server)["waiting"].as_array().expect("a list").clone();
            // A helper that has taken the work gets a CPU last, so on a busy host it begins later.
            list.iter().filter(|entry| entry["class"] == 1).count() == 2
                && list.iter().any(|entry| entry["place"] == works.as_str())
        },
        "the others never wait",
    );
    for (shard, place) in [(on_helper, "on a helper"), (waiting, waits)] {
        let of = |class: u8| {
            let entry = list.iter().find(|entry| entry["shard"] == shard && entry["class"] == class);
            entry.unwrap_or_else(|| panic!("no request of shard {shard} and class {class}: {list:?}"))
        };
        let (holder, held_up) = (of(0), of(1));
        assert_eq!(holder["place"], format!("{place}, with shard {shard}"));
        assert_eq!(held_up["place"], format!("waiting for shard {shard}"));
        let culprit = &held_up["culprit"];
        assert_eq!((&culprit["cause"], &culprit["shard"]), (&json!("flow"), &json!(shard)), "{culprit}");
        assert_eq!((&culprit["request"], &culprit["class"]), (&holder["request"], &json!(0)), "{culprit}");
        let text = culprit["text"].as_str().expect("text");
        let (begin, end) = (format!("its shard {shard} was busy for "), format!("(class 0), which is {place}"));
        assert!(text.starts_with(&begin) && text.ends_with(&end), "{text}");
    }
    let named = (0..shards.min(8)).map(|shard| shard.to_string()).collect::<Vec<_>>().join(", ");
    await_until(|| ready(server.admin).0 == 503, "the server stays ready");
    let (_, said) = ready(server.admin);
    assert!(said.contains(&format!("; held up: shard {named}")), "{said}");
    drop(release);
    (0..shards + 2).for_each(|_| _ = receive_bytes(&client));
    server.ends_as(fates! { received: u64::from(shards) + 2, answered: u64::from(shards) + 2 }, "levels");
    true
}
