//! How much does the server add to a call of a handler? The server receives a request, admits it,
//! schedules it, runs it, answers it and records it. One thread, no contention, no kernel.
//!
//! The bench uses the server's own engine and runtime. The files of `src/server` are compiled
//! against sockets in memory (`memory.rs`). `direct` calls the same handler's functions in
//! a loop, over the same bytes. In `batch 32` the server has a backlog. In `batch 1` requests come
//! one by one, so each of them costs a search of every queue. Two things are not measured: the
//! kernel's part, several microseconds per request, and the cold caches of a real server.
//!
//! `records.rs` measures only the records: counters, histograms and flight recorder.
//! `counted.rs` checks that the instructions of a request stay within bounds.

// The modules of the library are compiled into this bench, as the server compiles them. Against a
// linked library, the compiler could inline less, and private parts would be out of reach.
macro_rules! modules {
    ($($path:literal $name:ident)*) => {
        $(#[allow(dead_code, unused_imports, unreachable_pub, reason = "a bench needs a part of each")]
        #[path = $path]
        mod $name;)*
    };
}

modules! {
    "../../src/emulation/mod.rs" emulation
    "../../src/fate.rs" fate
    "../../src/handler/mod.rs" handler
    "memory.rs" net
    "server.rs" server
    "../../src/shards/mod.rs" shards
    "../../src/time/mod.rs" time
}

use forebay_metrics as metrics;
use forebay_runtime as runtime;
use forebay_sched as sched;

mod counted;
mod instructions;
mod records;

use arc_swap::ArcSwap;
use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group};
use handler::builtin::wire::{Header, Kind, Served};
use handler::builtin::{Bench, Echo};
use handler::{Arrival, Handler, Reply, Request};
use metrics::WorkerMetrics;
use net::{AddressFilter, Credit, HostAddresses, Io, KernelLink, Socket, SourcePrefix};
use runtime::activity::Activity;
use runtime::continuation::{Outside, WaitSlot, new_runtime_id};
use runtime::queue::ObjectPool;
use runtime::samples::Samples;
use runtime::{Shared, Wait};
use sched::bounds::SET_ASIDE_OF_SHARD;
use sched::overload::{Shedding, WaitBounds, WaitLimits};
use sched::{PolicyName, Tuning};
use server::path::common::Common;
use server::path::engine::Engine;
use server::path::job::{Job, Slot, WaitSlots};
use server::path::packet::{Packet, PacketBody};
use server::path::repeats::Repeats;
use server::path::serving::{Make, Serving};
use shards::Bounds;
use std::future::Future;
use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use time::{Nanos, clock};

/// As many packets as a server has for one worker.
const PACKETS: usize = 640;

/// The smallest possible handler: it answers with the request's first eight bytes.
struct Small;

impl Handler for Small {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        reply.put(&request.bytes()[..8]).expect("shorter than the request");
    }
}

/// Serves `count` requests on this thread under `policy`; returns the time that it takes.
fn served<H: Handler>(handler: &H, policy: PolicyName, request: &[u8], batch: usize, count: usize) -> Duration {
    let packets = ObjectPool::new(PACKETS, |number| PacketBody::new(number, 2_048));
    let outside = Arc::new(Outside::new(PACKETS + 1));
    let serving = Serving::new(
        handler,
        &outside,
        &[(Ipv4Addr::LOCALHOST, 9_000).into()],
        Credit::new(1, 0, SourcePrefix::NETWORK),
        Bounds {
            packets: PACKETS,
            set_aside: 64,
            set_aside_of_shard: SET_ASIDE_OF_SHARD,
            sockets: 1,
            workers: 1,
            begun: 0,
        },
    );
    dispatched((&serving, &outside), policy, &packets, request, batch, count, serving.make())
}

fn dispatched<'s, H: Handler, M: Make<Packet<'s, H::Ticket>>>(
    (serving, outside): (&Serving<'s, '_, H>, &Arc<Outside>),
    policy: PolicyName,
    packets: &'s ObjectPool<PacketBody<H::Ticket>>,
    request: &[u8],
    batch: usize,
    count: usize,
    make: M,
) -> Duration {
    let runtime_id = new_runtime_id();
    let slots =
        ObjectPool::new(PACKETS + 1, |number| Slot::<M::Future>::new(WaitSlot::new(runtime_id, number, outside)));
    let sockets = [Socket::new(request, count, batch)];
    let metrics = WorkerMetrics::new(1);
    let addresses = HostAddresses::read().unwrap();
    let filter =
        AddressFilter::new(&[(Ipv4Addr::LOCALHOST, 9_000).into()], &[7, 13, 17, 19, 1_900, 11_211], &[], addresses);
    // The server checks these bounds for each request, and no request exceeds them.
    let millis = Nanos::from_millis;
    let bounds = WaitBounds { target: millis(1_000), ..WaitBounds::always(millis(2_000), millis(4_000)) };
    let waits = WaitLimits { fresh: bounds, interrupted: bounds, ..WaitLimits::NONE };
    let limits = ArcSwap::from_pointee(waits);
    let samples = Samples::new(1, Nanos::from_micros(3), SourcePrefix::NETWORK, true);
    let common = Common {
        serving,
        make: &make,
        sockets: &sockets,
        filter: &filter,
        packets,
        slots: &slots,
        wait_slots: WaitSlots::new(PACKETS + 1, outside),
        repeats: Repeats::new(640),
        outside,
        runtime_id,
        classified: false,
        shed_answer: Some(Nanos::from_micros(3)),
        shedding: Shedding::new(1, 1, 1_024, false),
        limits: &limits,
        samples: &samples,
        activity: Activity::default(),
    };
    // The readiness queue needs a descriptor. Nothing ever arrives at this one.
    let descriptor = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let policy = policy.entry().make(&Tuning::new(1, Nanos::from_micros(20))).policy;
    let (shared, workers) =
        Shared::<Job<'s, '_, H, M>>::new(policy, Wait::Spin, &[descriptor.as_fd()], PACKETS / 2).unwrap();
    let before = net::sent();
    // Stopped before it starts, so the worker ends when it finds no more requests.
    shared.stop();
    let mut engine = Engine::new(&common, 0, metrics.recorder(0), KernelLink::new(Io::Batches, 1, |_, _| false, false));
    let mut took = Duration::ZERO;
    for worker in workers {
        let start = clock::now();
        worker.run(&shared, &mut engine);
        took = clock::now().minus(start).into();
    }
    assert_eq!((net::sent() - before, metrics.in_flight()), (count, 0), "every request was answered");
    took
}

/// Calls the functions of `handler` on `count` requests, one after the other.
fn called<H: Handler>(handler: &H, request: &[u8], count: usize) -> Duration {
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
    let (mut buffer, served) = (vec![0; request.len()], Served::default());
    let mut context = Context::from_waker(Waker::noop());
    let start = clock::now();
    for _ in 0..count {
        let bytes = black_box(request);
        let arrival = Arrival::at(bytes, peer, peer, Nanos::ZERO);
        let admitted = handler.admit(&arrival).ok().expect("a request");
        let mut reply = Reply::new(&mut buffer);
        let done = pin!(handler.handle(Request::new(&arrival, &admitted.ticket), &mut reply)).poll(&mut context);
        assert_eq!(done, Poll::Ready(()));
        let length = reply.len();
        handler.seal(Request::new(&arrival, &admitted.ticket), &served, &mut buffer[..length]);
        black_box(&buffer);
    }
    clock::now().minus(start).into()
}

fn compare<H: Handler>(group: &mut BenchmarkGroup<'_, WallTime>, handler: &H, request: &[u8], batches: &[usize]) {
    let count = |iterations: u64| usize::try_from(iterations).expect("they fit the address space");
    group.bench_function("direct", |bencher| {
        bencher.iter_custom(|iterations| called(handler, request, count(iterations)));
    });
    // `auto`, and the policies that it may choose.
    for name in ["levels", "steal", "global", "auto"] {
        let policy: PolicyName = name.parse().expect("a policy");
        for &batch in batches {
            group.bench_function(format!("{name}, batch {batch}"), |bencher| {
                bencher.iter_custom(|iterations| served(handler, policy, request, batch, count(iterations)));
            });
        }
    }
}

/// A request of the bench protocol that costs nothing.
fn request() -> Vec<u8> {
    [&Header::request(1, 0, Nanos::ZERO).emit()[..], &[7; 16]].concat()
}

fn dispatch(criterion: &mut Criterion) {
    let request = request();
    let repeatable =
        [&Header { kind: Kind::Repeatable, ..Header::request(1, 0, Nanos::ZERO) }.emit()[..], &[7; 16]].concat();
    for name in ["small", "echo", "identity"] {
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Elements(1));
        group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1)).sample_size(40);
        match name {
            "small" => compare(&mut group, &Small, &request, &[1, net::BATCH]),
            "echo" => compare(&mut group, &Bench::new(Echo, Nanos::MAX), &request, &[1, net::BATCH]),
            // In a batch of equal requests, all but the first would be repeats.
            _ => compare(&mut group, &Bench::new(Echo, Nanos::MAX), &repeatable, &[1]),
        }
        group.finish();
    }
}

criterion_group!(benches, dispatch, records::bench);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [only, way, count] = &arguments[..]
        && only == instructions::ONLY
    {
        counted::serve(way, count);
        return ExitCode::SUCCESS;
    }
    let measures = arguments.iter().any(|argument| argument == "--bench");
    // Under `cargo test`, arguments are names and options of tests.
    if !measures && !arguments.is_empty() {
        return ExitCode::SUCCESS;
    }
    let mut names = arguments.iter().filter(|argument| !argument.starts_with('-')).peekable();
    let counts = names.peek().is_none() || names.any(|name| name == "instructions");
    let is_within = !counts || counted::are_within_bounds();
    benches();
    Criterion::default().configure_from_args().final_summary();
    if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
