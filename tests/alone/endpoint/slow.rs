//! Does `/slow` name what a request waited for?
//! Method: under several policies a cause is planted, and then a light request comes. Its culprit is read while it waits, and
//! after its end.

use crate::support::client::{Client, client, receive_bytes};
use crate::support::http::page;
use crate::support::process::Forebay;
use crate::support::{EndOf, Running, alone, await_until};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint, sleep};
use forebay::time::{Nanos, clock};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ROUNDS: usize = 6;
const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// A request is its class, what it does, its flow (0 is none) and how many milliseconds it takes.
struct Planted;

impl Handler for Planted {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let [class, _, flow, _] = *arrival.bytes() else { return Err(Rejected::Ignored) };
        let admitted = Admitted::new(()).class(class);
        Ok(if flow == 0 { admitted } else { admitted.flow(flow.into()) })
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let [_, act, _, ms] = request.bytes() else { return };
        let takes = MS(u64::from(*ms));
        match act {
            b'c' => {
                let end = clock::now().plus(takes);
                while clock::now() < end {
                    thread::sleep(Nanos::from_micros(100).into());
                    checkpoint().await;
                }
            }
            b's' => sleep(takes).await,
            _ => thread::sleep(takes.into()),
        }
        let _ = reply.put(request.bytes());
    }
}

/// What the endpoint says.
fn slow(admin: SocketAddr) -> Value {
    serde_json::from_str(&page(admin, "/slow")).expect("JSON")
}

/// What is said of a request: cause, and the class that is to blame.
type Said = (String, Option<u64>);

/// What is said of those of class 0 in a list, by number.
fn said(list: &Value) -> BTreeMap<u64, Said> {
    let of_class = |entry: &&Value| entry["class"] == 0;
    let culprit = |entry: &Value| {
        let culprit = &entry["culprit"];
        let cause = culprit["cause"].as_str().unwrap_or("unknown").to_owned();
        (entry["request"].as_u64().expect("a number"), (cause, culprit["class"].as_u64()))
    };
    list.as_array().expect("a list").iter().filter(of_class).map(culprit).collect()
}

/// Sends `plants`, and a light request 5 ms later. Returns what is said of the light one while it waits, in the server or in
/// the socket, and afterwards.
fn plant(server: &Running, client: &UdpSocket, plants: &[[u8; 4]]) -> [Option<Said>; 2] {
    for plant in plants {
        client.send(plant).expect("sent");
    }
    thread::sleep(MS(5).into());
    client.send(&[0, b'-', plants[0][2], 0]).expect("sent");
    thread::sleep(MS(15).into());
    let now = slow(server.admin);
    // Of those that the server has the light one came last.
    let waiting = said(&now["waiting"]).pop_last().filter(|(_, (cause, _))| cause != "unknown");
    let meanwhile = match (waiting, &now["sockets"][0]["culprit"]) {
        (Some((_, said)), _) => Some(said),
        (None, culprit) => culprit["cause"].as_str().map(|cause| (cause.to_owned(), culprit["class"].as_u64())),
    };
    (0..=plants.len()).for_each(|_| _ = receive_bytes(client));
    let afterwards = said(&slow(server.admin)["slowest"]).pop_last().map(|(_, said)| said);
    [meanwhile, afterwards]
}

/// What is planted: requests, what may be said while a light one waits for them, and what must be said afterwards.
struct Case {
    name: &'static str,
    plants: Vec<[u8; 4]>,
    meanwhile: [(&'static str, Option<u64>); 2],
    afterwards: (&'static str, Option<u64>),
}

impl Case {
    /// A request that runs without checkpoints, or with some; a flow that is busy; many requests.
    fn all() -> [Case; 4] {
        let running = ("running", Some(1));
        let case = |name, plants, meanwhile, afterwards| Case { name, plants, meanwhile, afterwards };
        let unchecked = vec![[1, b'-', 0, 60]];
        [
            case("unchecked", unchecked, [running; 2], ("no_checkpoint", Some(1))),
            case("checked", vec![[1, b'c', 0, 60]], [running, ("order", Some(1))], ("order", Some(1))),
            // The request before it has no name yet.
            case("flow", vec![[0, b's', 7, 60]], [("flow", None); 2], ("flow", Some(0))),
            // The socket waits for the one that runs.
            case(
                "many",
                vec![[1, b'-', 0, 3]; 20],
                [running, ("no_free_worker", Some(1))],
                ("no_free_worker", Some(1)),
            ),
        ]
    }
}

// Is the culprit right, while the request waits and afterwards, in 95 % of the cases at least?
#[test]
fn the_culprit_is_named() {
    let _alone = alone();
    let (mut right, mut wrong) = (0, Vec::new());
    for policy in ["isolated", "steal", "global", "levels"] {
        for Case { name, plants, meanwhile, afterwards } in Case::all() {
            // This policy lets nothing run on.
            if policy == "levels" && name == "checked" {
                continue;
            }
            let server = Running::start(&[("policy", policy), ("workers", "1")], Planted);
            let client = client(&server);
            client.send(&[2, b'-', 0, 0]).expect("sent");
            receive_bytes(&client);
            for _ in 0..ROUNDS {
                for (said, expected) in plant(&server, &client, &plants).iter().zip([&meanwhile[..], &[afterwards]]) {
                    if said.as_ref().is_some_and(|(cause, class)| expected.contains(&(cause, *class))) {
                        right += 1;
                    } else {
                        wrong.push(format!("{policy}, {name}: {said:?} in place of {expected:?}"));
                    }
                }
            }
        }
    }
    assert!(right >= 19 * wrong.len(), "{right} are right, and wrong are {wrong:#?}");
}

// Is it the CPU if others use it, where nothing else holds a request up?
#[test]
fn a_cpu_that_others_use_is_named() {
    let _alone = alone();
    let one = || {
        let mut cpus = CpuSet::new();
        cpus.set(0).expect("there is one");
        sched_setaffinity(Pid::from_raw(0), &cpus).expect("it may run there");
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = EndOf(&stop);
        let server = Running::start_after(&[("policy", "isolated"), ("workers", "1")], Planted, one);
        for _ in 0..3 {
            scope.spawn(|| {
                one();
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let client = client(&server);
        let named = || said(&slow(server.admin)["slowest"]).values().filter(|(cause, _)| cause == "run_queue").count();
        await_until(
            || {
                (0..50).for_each(|_| _ = client.send(&[0, b'-', 0, 0]));
                thread::sleep(MS(10).into());
                named() >= 3
            },
            "it is never named",
        );
    });
}

// Is it the process if that stands still?
#[test]
fn a_process_that_stands_still_is_named() {
    let _alone = alone();
    let server = Forebay::start(&["--policy", "isolated", "--workers", "1"]);
    let client = Client::new(server.udp);
    await_until(
        || {
            server.signal(Signal::SIGSTOP);
            client.request(1, Nanos::ZERO, b"");
            thread::sleep(MS(600).into());
            server.signal(Signal::SIGCONT);
            thread::sleep(MS(600).into());
            said(&slow(server.admin)["slowest"]).values().any(|(cause, _)| cause == "host_pause")
        },
        "it is never named",
    );
}
