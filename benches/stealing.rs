//! What do the options of sharing cost or bring, each against its default? `stealing.md` has the figures and what was made
//! of them.
//!
//! Four situations on the task runtime: `equal`, every worker has 30 tasks in its deque, each of which ends by spawning
//! the next one, for as long as the run takes; `one`, one worker has 200 ms of work in its deque, in 32 tasks, and the
//! others have none; `spawner`, one task spawns all others; `all`, every task spawns two.
//!
//! Four machines: `cpu`, a worker for each processor, and tasks that compute for 0.5 us; `crowded`, the same with eight
//! workers, whatever processors there are; `emulated`, eight workers and tasks that sleep for 1 ms; `shards`, the same with
//! 64 workers, whose queue has four shards.
//!
//! A figure is the time until the last task has ended, all options in turn, each repetition in another order. An
//! option's is shown as its ratio to the default's in the same repetition: median, and least to largest. The share is that
//! of tasks which were taken from another's deque, in all repetitions together. Every run checks that all its tasks ran.
//!
//! `cargo bench --bench stealing -- cpu` (or another machine; all of them without a name).

#![allow(clippy::print_stdout, reason = "a bench tells people")]

use forebay::handler::builtin::Burner;
use forebay::sched::{Amount, Insertion, Sharing, Victim};
use forebay::tasks::{Options, Runtime, Spawner};
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
    /// About so many tasks in one run, where the situation does not say it.
    tasks: usize,
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

fn machines() -> [Machine; 4] {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let work = Work::Compute(Burner::calibrated());
    let computing = |name, workers| {
        let options = theft();
        Machine { name, workers, work, cost: Nanos::new(500), tasks: 20_000, options }
    };
    let sleeping = |name, workers, options| {
        let (cost, tasks) = (Nanos::from_millis(1), workers * 40);
        Machine { name, workers, work: Work::Sleep, cost, tasks, options }
    };
    [
        computing("cpu", processors),
        computing("crowded", 8),
        sleeping("emulated", 8, theft()),
        sleeping("shards", 64, insertion()),
    ]
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
        let mut runs = vec![vec![Run::default(); options.len()]; repetitions];
        for (repetition, runs) in runs.iter_mut().enumerate() {
            for turn in 0..options.len() {
                let option = (turn + repetition) % options.len();
                runs[option] = measure(machine, options[option].1, situation);
            }
        }
        for (option, cells) in cells.iter_mut().enumerate() {
            cells.push(cell(&runs, option));
        }
    }
    for ((name, _), cells) in options.iter().zip(cells) {
        println!("| {name} | {} |", cells.join(" | "));
    }
}

/// The default as it is, in milliseconds; the others by what the default took in the same repetition.
fn cell(runs: &[Vec<Run>], option: usize) -> String {
    let (unit, digits) = if option == 0 { (" ms", 1) } else { ("", 2) };
    let mut values: Vec<f64> =
        runs.iter().map(|runs| runs[option].ms / if option == 0 { 1.0 } else { runs[0].ms }).collect();
    values.sort_by(f64::total_cmp);
    let [median, least, most] = [runs.len() / 2, 0, runs.len() - 1].map(|at| values[at]);
    let sum = |of: fn(&Run) -> usize| runs.iter().map(|runs| of(&runs[option])).sum::<usize>() as f64;
    let stolen = 100.0 * sum(|run| run.stolen) / sum(|run| run.tasks);
    format!("{median:.digits$}{unit} ({least:.digits$}-{most:.digits$}), {stolen:.1} %")
}

#[derive(Clone, Copy, Default)]
struct Run {
    ms: f64,
    tasks: usize,
    /// Tasks that were taken from another's deque.
    stolen: usize,
}

fn measure(machine: &Machine, sharing: Sharing, situation: Situation) -> Run {
    let runtime = Runtime::builder().pool("main", machine.workers).sharing(sharing).build().expect("a runtime");
    let counted = Tasks { work: machine.work, done: Arc::default() };
    let (tasks, time) = situation(&runtime, &counted, machine);
    assert_eq!(counted.done.load(Ordering::Relaxed), tasks, "every task runs once");
    Run { ms: time.as_micros_f64() / 1_000.0, tasks, stolen: runtime.counters().total().stolen as usize }
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

    /// Spawns one from the calling task, which spawns the next, so many in all.
    fn repeat(&self, generations: usize, cost: Nanos) {
        let tasks = self.clone();
        drop(Spawner::current().expect("this is a task").spawn(move || {
            tasks.run(cost);
            if generations > 1 {
                tasks.repeat(generations - 1, cost);
            }
        }));
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
    let generations = (machine.tasks / machine.workers / EACH).max(1);
    let (tasks, cost) = (tasks.clone(), machine.cost);
    let load = move |_| (0..EACH).for_each(|_| tasks.repeat(generations, cost));
    (generations * machine.workers * EACH, from_standstill(runtime, machine.workers, load))
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
    let (count, tasks, cost) = (machine.tasks, tasks.clone(), machine.cost);
    (count, from_one_task(runtime, move || tasks.spawn(count, cost)))
}

fn all(runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let depth = machine.tasks.ilog2();
    let (tasks, cost) = (tasks.clone(), machine.cost);
    ((1 << (depth + 1)) - 2, from_one_task(runtime, move || tasks.branch(depth, cost)))
}
