//! One turn of a server.

use super::hostile;
use super::support::{Groups, Server, request, run};
use ::support::cpu;
use forebay::inside::runtime::step_back;
use forebay::time::{Nanos, clock};
use quinn::Endpoint;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;
use thread_priority::{
    RealtimeThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy,
    thread_native_id,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What a light and a heavy request compute, in microseconds, if some are heavy.
const COMPUTES: [u32; 2] = [10, 5_000];

/// How long a client waits for the answer to a request. Later it is lost.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long a client tries to make a handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);

/// A handshake that takes longer is not in time.
const IN_TIME: Nanos = Nanos::from_secs(1);

/// What begins in the first and in the last of this many parts of a turn is not counted.
const PARTS: u32 = 6;

/// Bytes that one connection sends, and bytes that it receives.
const BULK: u32 = 64_000_000;

/// A client that uses more of its CPU than this may be what is slow.
const CLIENT_CPU_MAX: f64 = 0.85;

/// The columns of [`Measured::row`].
pub(crate) const HEAD: &str = "server           per s  kem   asked  lost     p50     p99   p99.9   heavy  in time/s     h50     h99    CPU  client  MiB";

/// How handshakes come.
#[derive(Clone, Copy)]
pub(crate) enum Load {
    PerSecond(f64),
    /// This many clients, each of which begins the next one at the end of its last.
    AtOnce(usize),
}

/// Requests of established connections.
#[derive(Clone, Copy)]
pub(crate) struct Asks {
    /// Connections, each with a socket of its own.
    pub(crate) connections: u32,
    /// Requests per second of all connections together.
    pub(crate) rate: f64,
    /// Every Nth request is heavy; 0: none computes.
    pub(crate) heavy_every: u32,
}

pub(crate) struct Turn {
    pub(crate) asks: Asks,
    pub(crate) load: Load,
    pub(crate) length: Duration,
    pub(crate) groups: Groups,
    pub(crate) with_bulk: bool,
    pub(crate) flood: Option<&'static str>,
}

/// When something began, since the begin of the turn, and how long it took; `None` = no answer.
type Took = (Nanos, Option<Nanos>);

/// What was measured in a turn.
#[derive(Default)]
pub(crate) struct Measured {
    requests: Vec<Took>,
    /// The heavy requests. They are not in `requests`.
    heavy: Vec<Took>,
    handshakes: Vec<Took>,
    /// The time in which what began is counted.
    counted: Nanos,
    /// CPU time of the server and of the client, as a part of a CPU.
    cpu: [f64; 2],
    memory_mib: u64,
    bulk: String,
}

impl Turn {
    pub(crate) fn run(&self, server: &Server) -> Measured {
        let mut measured = Measured::default();
        let (begin, begun) = channel();
        thread::scope(|scope| {
            let shaking = scope.spawn(move || self.shake(server, &begun));
            // A thread of its own, because the next server would inherit the priority.
            scope.spawn(|| {
                run(async {
                    let mut clients = Vec::new();
                    for _ in 0..self.asks.connections {
                        let client = server.client_of(self.groups);
                        clients.push((server.connect(&client).await, client));
                    }
                    let memory = resident(server);
                    let hostile = match self.flood {
                        Some(kind) => Some(hostile::Hostile::begin(kind, server).await),
                        None => None,
                    };
                    hurry();
                    let (used, began) = (used_by(server), clock::now());
                    begin.send(began).expect("the other thread waits for it");
                    [measured.requests, measured.heavy] = self.ask_all(began, &clients).await;
                    let passed = clock::now().minus(began);
                    let now = used_by(server);
                    measured.cpu = [0, 1].map(|part| (now[part] - used[part]) as f64 / passed.get() as f64);
                    measured.handshakes = shaking.join().expect("it does not panic");
                    drop(hostile);
                    measured.memory_mib = resident(server).saturating_sub(memory) / 1024;
                    if self.with_bulk {
                        measured.bulk = bulk(server, &clients[0].0).await;
                    }
                });
            });
        });
        let (from, to) = (self.length / PARTS, self.length - self.length / PARTS);
        let counts = |(began, _): &Took| *began >= from.into() && *began < to.into();
        measured.requests.retain(counts);
        measured.heavy.retain(counts);
        measured.handshakes.retain(counts);
        Measured { counted: (to - from).into(), ..measured }
    }

    /// Lets each client ask by the schedule. Returns the light requests, then the heavy ones.
    async fn ask_all(&self, began: Nanos, clients: &[(quinn::Connection, Endpoint)]) -> [Vec<Took>; 2] {
        let Asks { rate, heavy_every, .. } = self.asks;
        let count = (rate * self.length.as_secs_f64()) as u32;
        let mut due = schedule(began, (0..count).map(move |n| Duration::from_secs_f64(f64::from(n) / rate)));
        let (mut asking, mut of) = (JoinSet::new(), (0..).zip(clients.iter().cycle()));
        while let Some((intended, (number, (connection, _)))) = due.recv().await.zip(of.next()) {
            let (connection, is_heavy) = (connection.clone(), heavy_every > 0 && (number + 1) % heavy_every == 0);
            let computes = if heavy_every > 0 { COMPUTES[usize::from(is_heavy)] } else { 0 };
            asking.spawn(async move {
                let answer = timeout(ANSWER_MAX, try_ask(&connection, &request(100, computes))).await;
                let took = clock::now().minus(intended);
                (is_heavy, (intended.minus(began), answer.is_ok_and(|answer| answer.is_some()).then_some(took)))
            });
        }
        let (heavy, light): (Vec<_>, Vec<_>) = asking.join_all().await.into_iter().partition(|(heavy, _)| *heavy);
        [light, heavy].map(|all| all.into_iter().map(|(_, took)| took).collect())
    }

    /// Makes handshakes from the time on that `begun` tells. The thread has the lowest priority: so
    /// a handshake does not delay the questions in the client.
    fn shake(&self, server: &Server, begun: &Receiver<Nanos>) -> Vec<Took> {
        let _ = step_back();
        let mut shaken = Vec::new();
        run(async {
            let Ok(began) = begun.recv() else { return };
            let (mut shaking, client) = (JoinSet::new(), server.client_of(self.groups));
            let one = move |intended: Nanos, client: Endpoint, address| async move {
                let connecting = client.connect(address, "localhost").expect("a local address");
                let connection = timeout(HANDSHAKE_MAX, connecting).await.ok().and_then(Result::ok);
                let took = clock::now().minus(intended);
                (intended.minus(began), connection.map(|connection| (connection.close(0_u32.into(), b""), took).1))
            };
            let (address, end) = (server.address, began.plus(self.length.into()));
            match self.load {
                Load::PerSecond(rate) => {
                    let count = (rate * self.length.as_secs_f64()) as u32;
                    let mut due =
                        schedule(began, (0..count).map(move |n| Duration::from_secs_f64(f64::from(n) / rate)));
                    while let Some(intended) = due.recv().await {
                        let client = client.clone();
                        shaking.spawn(async move { vec![one(intended, client, address).await] });
                    }
                }
                Load::AtOnce(clients) => (0..clients).for_each(|_| {
                    let client = client.clone();
                    shaking.spawn(async move {
                        let mut all = Vec::new();
                        while clock::now() < end {
                            all.push(one(clock::now(), client.clone(), address).await);
                        }
                        all
                    });
                }),
            }
            shaken = shaking.join_all().await.concat();
        });
        shaken
    }
}

impl Measured {
    /// Handshakes per second that ended in time.
    pub(crate) fn handshakes(&self) -> f64 {
        let in_time = self.handshakes.iter().filter(|(_, took)| took.is_some_and(|took| took <= IN_TIME));
        in_time.count() as f64 / self.counted.as_secs_f64()
    }

    /// A row of the table.
    pub(crate) fn row(&self, name: &str, rate: f64, kem: &str) -> String {
        let (asked, times) = (self.requests.len(), |all: &[Took]| all.iter().filter_map(|(_, took)| *took).collect());
        let answered: Vec<_> = times(&self.requests);
        let lost = asked - answered.len();
        let [p50, p99, p999] = quantiles(answered, [0.5, 0.99, 0.999]);
        let [heavy] = quantiles(times(&self.heavy), [0.5]);
        let [h50, h99] = quantiles(times(&self.handshakes), [0.5, 0.99]);
        let ([cpu, client], in_time, memory) = (self.cpu, self.handshakes(), self.memory_mib);
        let verdict = if client > CLIENT_CPU_MAX { "  INVALID: the client is slow" } else { "" };
        format!(
            "{name:15} {rate:6.0}  {kem:3} {asked:7} {lost:5} {p50:7} {p99:7} {p999:7} {heavy:7} {in_time:10.1} {h50:7} \
             {h99:7} {cpu:6.3} {client:7.2} {memory:4}{verdict}{}",
            self.bulk
        )
    }
}

/// Gives this thread and those that it starts real-time priority, as far as the system allows.
/// Otherwise the client would measure how long it waits for its own handshakes.
fn hurry() {
    let fifo = ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, fifo);
}

/// Sends each time after `began` when it has come. A thread does this: the runtime's own timers may
/// be a millisecond late.
fn schedule(began: Nanos, all: impl Iterator<Item = Duration> + Send + 'static) -> UnboundedReceiver<Nanos> {
    let (sender, receiver) = unbounded_channel();
    thread::spawn(move || {
        hurry();
        for after in all {
            let intended = began.plus(after.into());
            thread::sleep(intended.minus(clock::now()).into());
            if sender.send(intended).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The memory of the server, in KiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    line.and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// The CPU time of the server and of this client, in nanoseconds.
fn used_by(server: &Server) -> [u64; 2] {
    let used = cpu::of_tree(server.process.id());
    [used, cpu::of_tree(std::process::id()) - used]
}

/// How fast one connection sends and receives, in MB/s, and the server's CPU time for it.
async fn bulk(server: &Server, connection: &quinn::Connection) -> String {
    let upload = [b"u", &vec![0; BULK as usize][..]].concat();
    let mut line = String::new();
    for (name, question) in [("up", upload), ("down", request(BULK, 0))] {
        let (used, began) = (cpu::of_tree(server.process.id()), clock::now());
        if try_ask(connection, &question).await.is_none() {
            line += &format!("; {name} fails");
            continue;
        }
        let (passed, used) = (clock::now().minus(began), cpu::of_tree(server.process.id()) - used);
        let megabytes = f64::from(BULK) / 1e6;
        let (speed, cpu) = (megabytes / passed.as_secs_f64(), used as f64 / 1e6 / megabytes);
        line += &format!("; {name} {speed:.0} MB/s, {cpu:.2} ms of CPU for each MB");
    }
    line
}

/// The quantiles of `times` in microseconds.
fn quantiles<const N: usize>(mut times: Vec<Nanos>, quantiles: [f64; N]) -> [u64; N] {
    times.sort_unstable();
    quantiles.map(|quantile| {
        let rank = (times.len() as f64 * quantile) as usize;
        times.get(rank).map_or(0, |time| time.get() / 1_000)
    })
}

/// The answer to `question`, if the connection has not ended and the answer comes whole.
async fn try_ask(connection: &quinn::Connection, question: &[u8]) -> Option<Vec<u8>> {
    let (mut send, mut receive) = connection.open_bi().await.ok()?;
    send.write_all(question).await.ok()?;
    send.finish().ok()?;
    receive.read_to_end(1 << 26).await.ok()
}
