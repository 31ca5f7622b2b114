//! Does `/slow` name what a request waited for? Method: a cause is planted, and then a light
//! request comes. Its culprit is read while it waits, and after its end.

use crate::support::prelude::*;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use std::hint::spin_loop;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};

const MS: fn(u64) -> Nanos = Nanos::from_millis;

/// A request is its class, what it does, its flow (0 is none) and how many milliseconds it takes.
pub(super) struct Planted;

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
            b'u' => uninterrupted(|| thread::sleep(takes.into())).await,
            b'h' => {
                hop(1).await;
                thread::sleep(takes.into());
            }
            b'x' => {
                let mut now = clock::now();
                let end = now.plus(takes);
                while now < end {
                    spin_loop();
                    now = clock::now();
                    STILL.spins(now);
                }
            }
            _ => thread::sleep(takes.into()),
        }
        let _ = reply.put(request.bytes());
    }
}

/// For how long a CPU stood still, at most, as one of a virtual machine may, or was not given to
/// who asks.
struct Still {
    /// The last reading of the clock by requests that spin, one after the other.
    spun: AtomicU64,
    longest: AtomicU64,
}

static STILL: Still = Still { spun: AtomicU64::new(0), longest: AtomicU64::new(0) };

impl Still {
    fn spins(&self, now: Nanos) {
        let last = self.spun.swap(now.get(), Ordering::Relaxed);
        if last > 0 {
            self.saw(now.minus(Nanos::new(last)));
        }
    }

    fn saw(&self, time: Nanos) {
        self.longest.fetch_max(time.get(), Ordering::Relaxed);
    }

    /// The longest time since this was last asked.
    fn take_longest(&self) -> Nanos {
        self.spun.store(0, Ordering::Relaxed);
        Nanos::new(self.longest.swap(0, Ordering::Relaxed))
    }
}

fn slow(admin: SocketAddr) -> Value {
    serde_json::from_str(&page(admin, "/slow")).expect("JSON")
}

/// What is said of a request: cause, and the class that is to blame.
type Said = (String, Option<u64>);

/// What is said of an entry of a list.
fn culprit(entry: &Value) -> Said {
    let culprit = &entry["culprit"];
    (culprit["cause"].as_str().unwrap_or("unknown").to_owned(), culprit["class"].as_u64())
}

/// What is said of those of class 0 in a list, by number.
fn said(list: &Value) -> BTreeMap<u64, Said> {
    let of_class = |entry: &&Value| entry["class"] == 0;
    let numbered = |entry: &Value| (entry["request"].as_u64().expect("a number"), culprit(entry));
    list.as_array().expect("a list").iter().filter(of_class).map(numbered).collect()
}

/// Lets the calling thread, and those that it makes, run before all others: nothing here takes
/// long. Then a busy machine is no cause of its own.
pub(super) fn before_others() {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo).expect("root may");
}

/// Sends `plants`, and a light request once they are at work. Returns what is said of the light one
/// while it waits, in the server or in the socket, and at the end. It is asked `after` so many
/// milliseconds.
pub(super) fn plant(
    admin: SocketAddr,
    client: &UdpSocket,
    plants: &[[u8; 4]],
    light: [u8; 4],
    after: u64,
) -> [Option<Said>; 2] {
    let began_at = clock::now();
    for plant in plants {
        client.send(plant).expect("sent");
    }
    let at_work = |now: &Value| match plants {
        [[_, b's', ..], ..] => !now["waiting"][0].is_null(),
        // They may have ended before the answer, and the light one comes behind them anyway.
        [_, _, ..] => true,
        _ => now["workers"].as_array().expect("a list").iter().any(|worker| worker["running"]["class"] == 1),
    };
    // On a busy host it may have ended before the first answer. This time is then one in which a
    // CPU stood still.
    await_until(|| clock::now().minus(began_at) > MS(1_000) || at_work(&slow(admin)), "no page comes");
    client.send(&light).expect("sent");
    thread::sleep(MS(after).into());
    let mut now = slow(admin);
    // Of many requests, the worker may be between two.
    if plants.len() > 1 && now["workers"][0]["running"].is_null() {
        now = slow(admin);
    }
    // The answers may take a while where many requests are explained; what was planted takes 35 ms
    // longer than `after`.
    STILL.saw(clock::now().minus(began_at).minus(MS(after + 25)));
    // Of those that the server has the light one came last.
    let waiting = said(&now["waiting"]).pop_last().filter(|(_, (cause, _))| cause != "unknown");
    let meanwhile = waiting.map_or_else(|| culprit(&now["sockets"][0]), |(_, said)| said);
    (0..=plants.len()).for_each(|_| _ = receive_bytes(client));
    let afterwards = said(&slow(admin)["slowest"]).pop_last().map(|(_, said)| said);
    [Some(meanwhile), afterwards]
}

type Culprit = (&'static str, Option<u64>);

/// Plants a case until what is said is as expected; `None` then. A busy host is now and then a
/// culprit of its own, or lets the answer come late. What is wrong in the server is so each time:
/// three wrong answers while no CPU stood still count.
fn wrong<const N: usize>(
    case: &str,
    expected: [&[Culprit]; N],
    mut planted: impl FnMut() -> ([Option<Said>; N], Nanos),
) -> Option<String> {
    let mut heard = Vec::new();
    for _ in 0..10 {
        let (said, still) = planted();
        let is_right = |(said, expected): (&Option<Said>, &[Culprit])| {
            said.as_ref().is_some_and(|(cause, class)| expected.contains(&(cause, *class)))
        };
        if said.iter().zip(expected).all(is_right) {
            return None;
        }
        if still < MS(5) {
            heard.push(said);
        }
        if heard.len() == 3 {
            break;
        }
    }
    Some(format!("{case}: {heard:?} in place of {expected:?}"))
}

/// The cases of each kind and policy: one, or as many as the environment says.
fn seeds() -> std::ops::Range<u8> {
    0..std::env::var("SEEDS").map_or(1, |seeds| seeds.parse().expect("a number"))
}

/// What is planted: requests, what may be said while a light one waits for them, and what must be
/// said afterwards.
struct Case {
    kind: &'static str,
    /// Under which settings.
    settings: Vec<Vec<(&'static str, &'static str)>>,
    plants: fn(u8) -> Vec<[u8; 4]>,
    light: [u8; 4],
    meanwhile: [Culprit; 2],
    afterwards: Culprit,
}

fn takes(seed: u8) -> u8 {
    60 + 7 * seed
}

const POLICIES: [&str; 4] = ["steal", "levels", "auto", "shed"];

const LIGHT: [u8; 4] = [0, b'-', 0, 0];

impl Case {
    /// A request that runs without checkpoints, or with some; a flow that is busy; many requests.
    /// Workers of another pool, and a permit that another request has.
    fn all() -> [Case; 6] {
        let by = |cause| (cause, Some(1));
        let on = |workers, policies: [&'static str; 4]| {
            policies.map(|policy| vec![("policy", policy), ("workers", workers)]).to_vec()
        };
        let pools = [("2", "front=1,heavy=1"), ("3", "front=1,heavy=1,last=1")];
        let pooled = pools.into_iter().flat_map(|(workers, pools)| {
            let of = [("policy", "pools"), ("workers", workers), ("pools", pools)];
            ["none", "header"].map(|classify| [&of[..], &[("classify", classify)]].concat())
        });
        // Other policies let nothing run on.
        let stays = on("1", ["steal", "isolated", "global", "shed"]);
        let shared = on("2", ["steal", "levels", "auto", "global"]);
        let case = |kind, settings, light, plants, meanwhile, afterwards| Case {
            kind,
            settings,
            plants,
            light,
            meanwhile,
            afterwards,
        };
        let one = || on("1", POLICIES);
        // Of a flow, the request before it has no name yet; of many, the socket waits for the one
        // that runs.
        let (flow, many, run) = (("flow", None), by("no_free_worker"), by("running"));
        [
            case("no checkpoint", one(), LIGHT, |n| vec![[1, b'-', 0, takes(n)]], [run; 2], by("no_checkpoint")),
            case("checkpoints", stays, LIGHT, |n| vec![[1, b'c', 0, takes(n)]], [run, by("order")], by("order")),
            case("flow", one(), [0, b'-', 7, 0], |n| vec![[0, b's', 7, takes(n)]], [flow; 2], ("flow", Some(0))),
            // None takes as long as the light one waits. They spin: a CPU that halts may be late by
            // several ms.
            case("many", one(), LIGHT, |n| vec![[1, b'x', 0, 1]; usize::from(60 + 6 * n)], [run, many], many),
            case("permit", shared, [0, b'u', 0, 1], |n| vec![[1, b'u', 0, takes(n)]], [by("permit"); 2], by("permit")),
            case(
                "pool",
                pooled.collect(),
                [0, b'h', 0, 0],
                |n| vec![[1, b'h', 0, takes(n)]],
                [by("pool"); 2],
                by("pool"),
            ),
        ]
    }
}

#[test]
fn the_culprit_is_named() {
    let _alone = alone();
    before_others();
    let mut all_wrong = Vec::new();
    for Case { kind, settings, plants, light, meanwhile, afterwards } in Case::all() {
        for settings in settings {
            let server = Running::start(&settings, Planted);
            let client = client(&server);
            client.send(&[2, b'-', 0, 0]).expect("sent");
            receive_bytes(&client);
            for seed in seeds() {
                let planted = || (plant(server.admin, &client, &plants(seed), light, 25), STILL.take_longest());
                all_wrong.extend(wrong(&format!("{kind}, {settings:?}"), [&meanwhile, &[afterwards]], planted));
            }
        }
    }
    assert!(all_wrong.is_empty(), "{all_wrong:#?}");
}

#[test]
fn a_cpu_that_others_use_is_named() {
    let _alone = alone();
    let one = || {
        let mut cpus = CpuSet::new();
        cpus.set(0).expect("there is one");
        sched_setaffinity(Pid::from_raw(0), &cpus).expect("it may run there");
    };
    for policy in POLICIES {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = EndOf(&stop);
            let server = Running::after(one, bound(&[("policy", policy), ("workers", "1")]), Erased::new(Planted));
            for _ in 0..3 {
                scope.spawn(|| {
                    one();
                    while !stop.load(Ordering::Relaxed) {
                        spin_loop();
                    }
                });
            }
            let client = client(&server);
            for seed in seeds() {
                // The kernel counts a wait for the CPU when it is over. A CPU that stands still is
                // what is planted: so none of the tries counts as one without.
                let plants = [[1, b'x', 0, 40 + takes(seed)]];
                let planted = || (plant(server.admin, &client, &plants, LIGHT, 60), MS(5));
                assert_eq!(wrong(policy, [&[("run_queue", None)]; 2], planted), None);
            }
        });
    }
}

/// Judges what is said of a request that came while a process was stopped, and of one that came
/// while its worker was.
fn stopped([stop, go]: [fn(&Forebay); 2], takes: fn(u8) -> Nanos, asked: bool, expected: Culprit) {
    at_once(POLICIES, |policy| {
        let server = Forebay::start(&["--policy", policy, "--workers", "1", "--wait", "park"]);
        let client = Client::new(server.udp);
        for seed in seeds() {
            let planted = || {
                await_until(|| slow(server.admin)["workers"][0]["running"].is_null(), "it never rests");
                stop(&server);
                client.request(1, Nanos::ZERO, b"");
                thread::sleep(takes(seed).into());
                let meanwhile = asked.then(|| culprit(&slow(server.admin)["sockets"][0]));
                go(&server);
                client.receive();
                let then = said(&slow(server.admin)["slowest"]).pop_last().map(|(_, said)| said);
                ([if asked { meanwhile } else { then.clone() }, then], Nanos::ZERO)
            };
            assert_eq!(wrong(policy, [&[expected]; 2], planted), None);
        }
    });
}

// Is it the process if that stands still? Nobody can ask it meanwhile.
#[test]
fn a_process_that_stands_still_is_named() {
    let _alone = alone();
    let stop = |server: &Forebay| {
        server.signal(Signal::SIGSTOP);
        let process = Pid::from_raw(server.process.child.id() as i32);
        waitpid(process, Some(WaitPidFlag::WUNTRACED)).expect("it stops");
    };
    stopped(
        [stop, |server| server.signal(Signal::SIGCONT)],
        |seed| MS(350 + u64::from(takes(seed))),
        false,
        ("host_pause", None),
    );
}

fn worker(server: &Forebay) -> Pid {
    server.thread_ids()["forebay-0"]
}

// Is it the worker that sleeps, though something waits in its socket? Method: a tracer stops its
// thread.
#[test]
fn a_worker_that_does_not_wake_is_named() {
    let _alone = alone();
    let stop = |server: &Forebay| {
        ptrace::seize(worker(server), ptrace::Options::empty()).expect("root may");
        ptrace::interrupt(worker(server)).expect("it is traced");
        waitpid(worker(server), Some(WaitPidFlag::__WALL)).expect("it stops");
    };
    let go = |server: &Forebay| ptrace::detach(worker(server), None).expect("it is traced");
    stopped([stop, go], |seed| MS(takes(seed).into()), true, ("asleep", None));
}
