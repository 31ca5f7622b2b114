//! Does `/slow` name what a request waited for?
//! Method: under several policies a cause is planted, and then a light request comes. Its culprit is read while it waits, and
//! after its end.

use crate::support::client::{Client, client, receive_bytes};
use crate::support::http::{exchange, page};
use crate::support::process::Forebay;
use crate::support::{EndOf, Running, alone, await_until};
use forebay::handler::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint, sleep};
use forebay::time::{Nanos, clock};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use prost::Message as _;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hint::spin_loop;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

const ROUNDS: usize = 4;
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
            b'x' => {
                let end = clock::now().plus(takes);
                while clock::now() < end {
                    spin_loop();
                }
            }
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

/// Lets the calling thread, and those that it makes, run before all others: nothing here takes long. Then a busy machine is no
/// cause of its own.
fn before_others() {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).expect("root may");
}

/// Sends `plants`, and a light request once they are at work. Returns what is said of the light one while it waits, in the
/// server or in the socket, and afterwards.
fn plant(server: &Running, client: &UdpSocket, plants: &[[u8; 4]]) -> [Option<Said>; 2] {
    for plant in plants {
        client.send(plant).expect("sent");
    }
    let parks = plants[0][1] == b's';
    let at_work = |now: &Value| match parks {
        true => !now["waiting"][0].is_null(),
        false => now["workers"][0]["running"]["class"] == 1,
    };
    await_until(|| at_work(&slow(server.admin)), "the planted request never runs");
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
        let unchecked = vec![[1, b'-', 0, 90]];
        [
            case("unchecked", unchecked, [running; 2], ("no_checkpoint", Some(1))),
            case("checked", vec![[1, b'c', 0, 90]], [running, ("order", Some(1))], ("order", Some(1))),
            // The request before it has no name yet.
            case("flow", vec![[0, b's', 7, 90]], [("flow", None); 2], ("flow", Some(0))),
            // The socket waits for the one that runs.
            case(
                "many",
                vec![[1, b'-', 0, 3]; 30],
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
    before_others();
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
                    spin_loop();
                }
            });
        }
        let client = client(&server);
        let named = || said(&slow(server.admin)["slowest"]).values().filter(|(cause, _)| cause == "run_queue").count();
        await_until(
            || {
                (0..5).for_each(|_| _ = client.send(&[0, b'x', 0, 2]));
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

/// What a trace has: see `perfetto_trace.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Packet {
    #[prost(uint64, tag = "8")]
    timestamp: u64,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, tag = "23")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DebugAnnotation {
    #[prost(string, tag = "6")]
    value: String,
    #[prost(string, tag = "10")]
    name: String,
}

// Does a trace show what the workers ran, and the delayed request with its culprit? Does each span end?
#[test]
fn a_trace_has_what_ran_and_who_waited() {
    let _alone = alone();
    before_others();
    let server = Running::start(&[("policy", "isolated"), ("workers", "1")], Planted);
    let client = client(&server);
    plant(&server, &client, &[[1, b'-', 0, 90]]);
    let trace =
        Trace::decode(&*exchange(server.admin, "GET /trace?seconds=60", "").expect("an answer").1).expect("a trace");
    let uuid = |name: &str| {
        let track =
            trace.packets.iter().filter_map(|packet| packet.track.as_ref()).find(|track| track.name.contains(name));
        track.unwrap_or_else(|| panic!("no track {name} in {trace:?}")).uuid
    };
    let spans = |track: u64| {
        let events = trace.packets.iter().filter_map(|packet| Some((packet.timestamp, packet.event.as_ref()?)));
        let events: Vec<_> = events.filter(|(_, event)| event.track == track).collect();
        assert!(events.iter().map(|(_, event)| event.kind).eq([1, 2].into_iter().cycle().take(events.len())));
        let span = |pair: &[(u64, &TrackEvent)]| (pair[1].0 - pair[0].0, pair[0].1.clone());
        events.chunks(2).map(span).collect::<Vec<_>>()
    };
    let heavy = spans(uuid("worker 0")).into_iter().find(|(_, event)| event.name.contains("(class 1)"));
    assert!(heavy.is_some_and(|(lasted, _)| lasted >= 90_000_000), "{trace:?}");
    let (waited, event) = spans(uuid("delayed: ")).remove(0);
    let culprit = event.annotations.iter().find(|annotation| annotation.name == "waited for").expect("a culprit");
    assert!(waited >= 20_000_000 && event.name.contains("(class 0)"), "{event:?} for {waited} ns");
    assert!(culprit.value.contains("(class 1)") && culprit.value.contains("without a checkpoint"), "{culprit:?}");
}
