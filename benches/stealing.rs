//! What do the options of sharing cost or bring, each against its default? `stealing.md` has the figures and what was made
//! of them.
//!
//! Four situations on the task runtime: `equal`, every worker has as much in its deque as every other; `one`, one worker
//! has 200 ms of work in its deque and the others have none; `spawner`, one task spawns all others; `all`, every task
//! spawns two. Three machines: `cpu`, a worker for each processor, and tasks that compute; `emulated`, eight workers and
//! tasks that sleep, whatever processors there are; `shards`, the same with 64 workers, whose queue has four shards.
//!
//! A figure is the time until the last task has ended, all options in turn, each repetition in another order. An
//! option's is shown as its ratio to the default's in the same repetition: median, and least to largest. Every run checks
//! that all its tasks ran.
//!
//! `cargo bench --bench stealing -- cpu` (or `emulated`, `shards`; all three without a name).

use forebay::handler::Burner;
use forebay::runtime::task::{Options, Runtime, Spawner};
use forebay::sched::{Amount, Insertion, Sharing, Victim};
use forebay::time::{Nanos, clock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

/// Odd, so that the median is one of them.
const REPETITIONS: usize = 15;

struct Machine {
    name: &'static str,
    workers: usize,
    work: Work,
    /// What a task costs where the situation does not say it.
    cost: Nanos,
    /// How often what is short is done in one run.
    rounds: usize,
    /// The default first.
    options: Vec<(String, Sharing)>,
}

#[derive(Clone, Copy)]
enum Work {
    Compute(Burner),
    Sleep,
}

/// Runs tasks and counts them.
#[derive(Clone)]
struct Tasks {
    work: Work,
    done: Arc<AtomicUsize>,
}

/// Returns how many tasks it made, and how long they took.
type Situation = fn(&Runtime, &Tasks, &Machine) -> (usize, Nanos);

const SITUATIONS: [(&str, Situation); 4] = [("equal", equal), ("one", one), ("spawner", spawner), ("all", all)];

/// Tasks that a deque holds before the next one goes into the queue.
const IN_A_DEQUE: usize = 32;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
    // `cargo test --benches` runs this too: to see that it works, and not to measure.
    let repetitions = if arguments.iter().any(|argument| argument == "--bench") { REPETITIONS } else { 1 };
    // Threads that are started from here on sleep as long as they are told to, not 50 us longer.
    nix::sys::prctl::set_timerslack(1).expect("timer slack can be set");
    for machine in machines() {
        if wanted.is_empty() || wanted.iter().any(|name| **name == machine.name) {
            table(&machine, repetitions);
        }
    }
}

fn machines() -> [Machine; 3] {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let cpu = Machine {
        name: "cpu",
        workers: processors,
        work: Work::Compute(Burner::calibrated()),
        cost: Nanos::from_micros(5),
        rounds: 40,
        options: theft(),
    };
    let cost = Nanos::from_millis(1);
    let emulated = Machine { name: "emulated", workers: 8, work: Work::Sleep, cost, rounds: 1, options: theft() };
    let shards = Machine { name: "shards", workers: 64, work: Work::Sleep, cost, rounds: 1, options: insertion() };
    [cpu, emulated, shards]
}

/// The default, and each other choice of whom to rob, how, and how often.
fn theft() -> Vec<(String, Sharing)> {
    let default = Sharing::default();
    let mut all = Vec::new();
    all.extend(Victim::ALL.map(|victim| (victim.name().to_owned(), Sharing { victim, ..default })));
    all.extend(Amount::ALL.map(|amount| (format!("amount {}", amount.name()), Sharing { amount, ..default })));
    all.extend([2, 7, 61].map(|steal_every| (format!("every {steal_every}"), Sharing { steal_every, ..default })));
    all.extend([2, 4].map(|deques| (format!("{deques} deques"), Sharing { deques, ..default })));
    with_default(all)
}

/// The default, and each other choice of a shard.
fn insertion() -> Vec<(String, Sharing)> {
    let of = |insertion: Insertion| (insertion.name().to_owned(), Sharing { insertion, ..Sharing::default() });
    with_default(Insertion::ALL.map(of).to_vec())
}

fn with_default(mut others: Vec<(String, Sharing)>) -> Vec<(String, Sharing)> {
    others.retain(|(_, sharing)| *sharing != Sharing::default());
    others.insert(0, ("default".to_owned(), Sharing::default()));
    others
}

fn table(machine: &Machine, repetitions: usize) {
    let Machine { name, workers, options, .. } = machine;
    println!("\n### {name}: {workers} workers, {repetitions} repetitions\n");
    println!("| option | {} |", SITUATIONS.map(|(name, _)| name).join(" | "));
    println!("|---|{}", "---|".repeat(SITUATIONS.len()));
    let mut cells = vec![Vec::new(); options.len()];
    for (_, situation) in SITUATIONS {
        let mut times = vec![vec![0.0; options.len()]; repetitions];
        for (repetition, times) in times.iter_mut().enumerate() {
            for turn in 0..options.len() {
                let option = (turn + repetition) % options.len();
                times[option] = measure(machine, options[option].1, situation);
            }
        }
        for (option, cells) in cells.iter_mut().enumerate() {
            // The default as it is, in milliseconds; the others by what the default took in the same repetition.
            let (unit, digits) = if option == 0 { (" ms", 1) } else { ("", 2) };
            let base = |times: &Vec<f64>| if option == 0 { 1.0 } else { times[0] };
            let mut values: Vec<f64> = times.iter().map(|times| times[option] / base(times)).collect();
            values.sort_by(f64::total_cmp);
            let [median, least, most] = [repetitions / 2, 0, repetitions - 1].map(|at| values[at]);
            cells.push(format!("{median:.digits$}{unit} ({least:.digits$}-{most:.digits$})"));
        }
    }
    for ((name, _), cells) in options.iter().zip(cells) {
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// Milliseconds of one run.
fn measure(machine: &Machine, sharing: Sharing, situation: Situation) -> f64 {
    let runtime = Runtime::builder().pool("main", machine.workers).sharing(sharing).build().expect("a runtime");
    let tasks = Tasks { work: machine.work, done: Arc::default() };
    let (made, time) = situation(&runtime, &tasks, machine);
    assert_eq!(tasks.done.load(Ordering::Relaxed), made, "every task runs once");
    time.as_micros_f64() / 1_000.0
}

impl Tasks {
    fn run(&self, cost: Nanos) {
        match self.work {
            Work::Compute(burner) => burner.burn(cost),
            Work::Sleep => thread::sleep(cost.into()),
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Spawns so many of this cost from the calling task.
    fn spawn(&self, count: usize, cost: Nanos) {
        let spawner = Spawner::current().expect("this is a task");
        for _ in 0..count {
            let tasks = self.clone();
            drop(spawner.spawn(move || tasks.run(cost)));
        }
    }

    /// Spawns a tree of `depth` generations below the calling task.
    fn branch(&self, depth: u32, cost: Nanos) {
        if depth == 0 {
            return;
        }
        let spawner = Spawner::current().expect("this is a task");
        for _ in 0..2 {
            let tasks = self.clone();
            drop(spawner.spawn(move || {
                tasks.branch(depth - 1, cost);
                tasks.run(cost);
            }));
        }
    }
}

/// The time that all takes which `load` spawns; it is called on every worker, with its number, while all stand still.
fn from_standstill(runtime: &Runtime, workers: usize, load: impl Fn(usize) + Send + Sync + 'static) -> Nanos {
    let (load, barrier) = (Arc::new(load), Arc::new(Barrier::new(workers + 1)));
    let loaders: Vec<_> = (0..workers)
        .map(|worker| {
            let (load, barrier) = (Arc::clone(&load), Arc::clone(&barrier));
            runtime.spawn_with(Options::new().with_children(), move || {
                // A worker that stands here takes no second one: each gets one.
                barrier.wait();
                load(worker);
                barrier.wait();
            })
        })
        .collect();
    barrier.wait();
    // All wait for this thread, so that none can begin before the clock is read.
    let start = clock::now();
    barrier.wait();
    loaders.into_iter().for_each(|loader| loader.join().expect("no task panics"));
    clock::now().minus(start)
}

/// The time that a task takes, with all that descends from it.
fn from_one_task(runtime: &Runtime, task: impl FnOnce() + Send + 'static) -> Nanos {
    let start = clock::now();
    runtime.spawn_with(Options::new().with_children(), task).join().expect("no task panics");
    clock::now().minus(start)
}

fn equal(runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    const EACH: usize = IN_A_DEQUE - 2;
    let mut time = Nanos::ZERO;
    for _ in 0..machine.rounds {
        let (tasks, cost) = (tasks.clone(), machine.cost);
        time = time.plus(from_standstill(runtime, machine.workers, move |_| tasks.spawn(EACH, cost)));
    }
    (machine.rounds * machine.workers * EACH, time)
}

fn one(runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let (tasks, cost) = (tasks.clone(), Nanos::new(Nanos::from_millis(200).get() / IN_A_DEQUE as u64));
    let load = move |worker| {
        if worker == 0 {
            tasks.spawn(IN_A_DEQUE, cost);
        }
    };
    (IN_A_DEQUE, from_standstill(runtime, machine.workers, load))
}

fn spawner(runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let (count, tasks, cost) = (machine.workers * machine.rounds * 40, tasks.clone(), machine.cost);
    (count, from_one_task(runtime, move || tasks.spawn(count, cost)))
}

fn all(runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let depth = (machine.workers * machine.rounds * 40).ilog2();
    let (tasks, cost) = (tasks.clone(), machine.cost);
    ((1 << (depth + 1)) - 2, from_one_task(runtime, move || tasks.branch(depth, cost)))
}
