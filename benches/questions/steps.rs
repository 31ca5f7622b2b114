//! What does each step of a request cost beside its work?
//!
//! Where valgrind is installed, the instructions of each step of one thread are counted. No other load on the machine
//! changes them, so `cargo bench` and `.ci/release` hold them to a bound.

use super::harness::{Arm, Size, interleaved, ns, text};
use super::instructions::instructions;
use super::page::{Answer, Table};
use forebay::handler::builtin::wire::Header;
use forebay::handler::{Arrival, Handler, Reply, Request, checkpoint, hop};
use forebay::metrics::{Sample, WorkerMetrics};
use forebay::sched::{Local, Policy, PoolId, Step, Tuning, View, Wait, WorkerId};
use forebay::tasks::{Runtime, Spawner};
use forebay::time::{Nanos, clock};
use std::future::Future;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll, Waker};

pub(crate) const QUESTION: &str = "What does each step of a request cost beside its work?";

/// A step of one thread.
pub(crate) struct OneStep {
    pub(crate) name: &'static str,
    what: &'static str,
    /// Does it some times.
    pub(crate) times: fn(usize),
    /// Instructions that it takes at most: a tenth above what it took when this was written.
    instructions_max: f64,
}

pub(crate) const STEPS: &[OneStep] = &[
    OneStep {
        name: "policy, own",
        what: "`hybrid` searches and finds a job in its own deque",
        times: policy_own,
        instructions_max: 178.0,
    },
    OneStep {
        name: "policy, all",
        what: "`hybrid` searches all places of 4 workers and finds nothing",
        times: policy_all,
        instructions_max: 5640.0,
    },
    OneStep { name: "wire", what: "a header read, and one written", times: wire, instructions_max: 54.0 },
    OneStep {
        name: "record",
        what: "an answer with its four times into the histograms",
        times: record,
        instructions_max: 569.0,
    },
    OneStep {
        name: "first poll",
        what: "the future of an empty handler put into its box and polled",
        times: first_poll,
        instructions_max: 58.0,
    },
    OneStep {
        name: "task",
        what: "a task spawned by another, run, and joined with all others, on one worker",
        times: task,
        instructions_max: 2232.0,
    },
];

/// Steps of tasks on our runtime: their name, what they are, and nanoseconds of one.
type TaskStep = (&'static str, &'static str, fn(Size) -> f64);

const OF_TASKS: [TaskStep; 2] = [
    ("yield", "from one task to another of the same worker", |size| switched(size, 2, false)),
    ("hop", "a task between pools of one worker each", |size| switched(size, 1, true)),
];

pub(crate) fn ask(size: Size) -> Answer {
    let mut exceeded = Vec::new();
    let mut table = Table::new("Steps, ns", &["step", "what", "ns", "instructions"]);
    let times = size.of(20_000, 100);
    let of_one =
        |step: &'static OneStep| -> Arm<'static> { Box::new(move || [ns(|| (step.times)(times)) / times as f64]) };
    let of_tasks = |(_, _, measure): TaskStep| -> Arm<'static> { Box::new(move || [measure(size)]) };
    let figures = interleaved(size, STEPS.iter().map(of_one).chain(OF_TASKS.map(of_tasks)).collect());
    for (step, [figures]) in STEPS.iter().zip(&figures) {
        // One shows in a test that it works.
        let is_counted = size.of(true, step.name == STEPS[0].name);
        let counted = is_counted.then(|| instructions(step.name, 100, size.of(10_100, 200))).flatten();
        let most = step.instructions_max;
        // Tests are compiled with fewer optimisations.
        if let Some(counted) = counted.filter(|counted| size == Size::Full && *counted > most) {
            exceeded.push(format!("{}: {} instructions, at most {most} are allowed", step.name, text(counted)));
        }
        let counted = counted.map_or_else(|| "-".to_owned(), |counted| format!("{}, bound {most}", text(counted)));
        table.row(step.name, [step.what.to_owned(), figures.text(), counted]);
    }
    for ((name, what, _), [figures]) in OF_TASKS.iter().zip(&figures[STEPS.len()..]) {
        table.row(*name, [(*what).to_owned(), figures.text(), "-".to_owned()]);
    }
    let of_a_request = ["policy, own", "wire", "record", "first poll"];
    let sum = STEPS.iter().zip(&figures).filter(|(step, _)| of_a_request.contains(&step.name));
    let sum: f64 = sum.map(|(_, [figures])| figures.median()).sum();
    Answer {
        table,
        not_shown: "Caches that are cold, as between requests of a real server; a loop shows a step at its best. Instructions \
            are counted where valgrind is installed. `dispatch` measures the server's cost of a request as a whole, and \
            `forebay calibrate` the steps that simulations charge.",
        verdict: format!("Search, wire, first poll and record of a request take {} ns together.", text(sum)),
        failure: (!exceeded.is_empty()).then(|| exceeded.join("; ")),
    }
}

/// A world in which nothing waits anywhere.
struct Nothing;

impl View for Nothing {
    fn busy_since(&self, _: WorkerId) -> Option<Nanos> {
        None
    }

    fn backlog(&self, _: WorkerId) -> usize {
        0
    }

    fn queue_len(&self, _: PoolId) -> usize {
        0
    }

    fn queued(&self) -> usize {
        0
    }

    fn asleep(&self, _: PoolId) -> usize {
        0
    }

    fn queues_are_half_full(&self) -> bool {
        false
    }

    fn debt(&self) -> Nanos {
        Nanos::ZERO
    }
}

fn hybrid() -> (Policy, Local) {
    let policy = Tuning { reserved: Some(1), ..Tuning::new(4, Nanos::from_micros(20)) }.policy("hybrid");
    let local = Local::new(0, policy.topology());
    (policy, local)
}

fn policy_own(times: usize) {
    let (policy, mut local) = hybrid();
    let mut own = 0;
    for _ in 0..times {
        let step = policy.search(&mut local).next(&mut local, black_box(Nanos::ZERO), &Nothing);
        own += usize::from(step == Some(Step::Own));
    }
    // A rare search begins elsewhere.
    assert!(own > times / 2, "{own} of {times}");
}

fn policy_all(times: usize) {
    let (policy, mut local) = hybrid();
    for _ in 0..times {
        let mut walk = policy.search(&mut local);
        let steps = std::iter::from_fn(|| walk.next(&mut local, black_box(Nanos::ZERO), &Nothing)).count();
        assert!(steps > 4, "it has looked at others");
    }
}

fn wire(times: usize) {
    let mut message = Header::request(1, 0, Nanos::from_micros(7)).emit();
    for id in 0..times {
        let mut header = Header::parse(black_box(&message)).expect("a request");
        header.id = id as u64;
        message = header.emit();
    }
    assert_eq!(Header::parse(&message).expect("a request").id, times as u64 - 1);
}

fn record(times: usize) {
    let metrics = WorkerMetrics::new(1);
    let mut recorder = metrics.recorder(0);
    let [kernel, queue, service, send] = [4_000, 2_000, 1_500, 2_400].map(Nanos::new);
    for turn in 0..times as u64 {
        let sample = Sample { class: 0, kernel, queue: queue.plus(Nanos::new(turn % 512)), service, send };
        recorder.answered(black_box(&sample));
    }
}

/// The handler that does nothing.
struct Empty;

impl Handler for Empty {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, _: &mut Reply<'_>) {
        black_box(request.bytes().len());
    }
}

fn first_poll(times: usize) {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let bytes = [7; 64];
    let mut context = Context::from_waker(Waker::noop());
    let mut slot = Box::pin(None);
    for _ in 0..times {
        slot.set(Some(handled(&bytes, peer)));
        let future = slot.as_mut().as_pin_mut().expect("it was put there");
        assert_eq!(black_box(future).poll(&mut context), Poll::Ready(()));
    }
}

async fn handled(bytes: &[u8], peer: SocketAddr) {
    let mut buffer = [0; 64];
    let arrival = Arrival::new(bytes, peer, peer, Nanos::ZERO);
    Empty.handle(Request::new(&arrival, &()), &mut Reply::new(&mut buffer)).await;
}

fn task(times: usize) {
    let runtime = Runtime::builder().pool("main", 1).wait(Wait::Park).build().expect("threads");
    let group = runtime.group();
    let first = group.spawn(move || {
        let spawner = Spawner::current().expect("this is a task");
        (0..times).for_each(|_| drop(spawner.spawn(|| black_box(1))));
    });
    group.close().join().expect("it was not refused");
    first.join().expect("no task panics");
    assert_eq!(runtime.counters().total().completed, times as u64 + 1);
}

/// Nanoseconds of one checkpoint of `tasks` tasks that take turns on one worker; or of one hop between two workers, if it
/// `hops`.
fn switched(size: Size, tasks: usize, hops: bool) -> f64 {
    let times = size.of(5_000, 50);
    let builder = Runtime::builder().slice(Nanos::ZERO).pool("one", 1);
    let runtime = if hops { builder.pool("two", 1) } else { builder }.build().expect("threads");
    // One task starts all, so that they take turns from the beginning.
    let starter = runtime.spawner().clone();
    let root = runtime.spawn(move || {
        let task = |_| {
            starter.spawn_future(async move {
                let start = clock::now();
                for turn in 0..times {
                    if hops { hop((turn + 1) % 2).await } else { checkpoint().await }
                }
                clock::now().minus(start).get() as f64
            })
        };
        (0..tasks).map(task).collect::<Vec<_>>()
    });
    let took = root.join().expect("no panic").into_iter().map(|task| task.join().expect("no panic"));
    took.fold(0.0, f64::max) / (times * tasks) as f64
}
