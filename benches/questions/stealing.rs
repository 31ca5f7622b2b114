//! What do the options of sharing cost or bring, each against its default? `benches/stealing.md` says what was made of it.
//!
//! Four situations on the task runtime: `equal`, every worker has 30 tasks in its deque, each of which ends by spawning
//! the next one, for as long as the run takes; `one`, one worker has 200 ms of work in its deque, in 32 tasks, and the
//! others have none; `spawner`, one task spawns all others; `all`, every task spawns two.
//!
//! Four machines: `cpu`, a worker for each processor, and tasks that compute for 0.5 us; `crowded`, the same with eight
//! workers, whatever processors there are; `emulated`, eight workers and tasks that sleep for 1 ms; `shards`, the same with
//! 64 workers, whose queue has four shards.
//!
//! A figure is the time until the last task has ended. An option's is shown as its ratio to the default's in the same
//! round. The share is that of tasks which were taken from another's deque; above 100 % they were taken more than once.

use super::harness::{Arm, Figures, Size, interleaved, text, threads};
use super::page::{Answer, Table};
use forebay::handler::builtin::Burner;
use forebay::sched::{Amount, Insertion, Sharing, Victim};
use forebay::tasks::{Options, Runtime, Spawner};
use forebay::time::{Nanos, clock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

pub(crate) const QUESTION: &str = "What do the options of sharing cost or bring: whom a thief asks, how much it takes, how often, from how many deques, and where a job enters a queue?";

struct Machine {
    name: &'static str,
    workers: usize,
    work: Work,
    /// What a task costs where the situation does not say it.
    cost: Nanos,
    /// Number of tasks in one run, about, where the situation does not say it.
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
type Situation = fn(Size, &Runtime, &Tasks, &Machine) -> (usize, Nanos);

const SITUATIONS: [(&str, Situation); 4] = [("equal", equal), ("one", one), ("spawner", spawner), ("all", all)];

/// Tasks that a deque holds before the next one goes into the queue.
const IN_A_DEQUE: usize = 32;

pub(crate) fn ask(size: Size) -> Answer {
    let asked = || {
        // Threads that are started from here on sleep as long as they ask for, not 50 us longer.
        nix::sys::prctl::set_timerslack(1).expect("timer slack can be set");
        let mut extremes = Extremes::default();
        let tables = machines(size).iter().map(|machine| table(size, machine, &mut extremes)).collect();
        Answer { tables, not_shown: NOT_SHOWN, verdict: extremes.verdict(), failure: None }
    };
    // The slack is that of a thread and of those that it starts.
    thread::scope(|scope| scope.spawn(asked).join().expect("no panic"))
}

const NOT_SHOWN: &str = "More thieves that run at once than processors, caches that are not shared, and tasks whose costs differ. \
    Tasks that sleep hide whatever costs less than tens of microseconds: that no option differs there says that none wastes a \
    worker, not that all cost the same. Single runs differ by a factor of two: the medians carry the tables.";

/// The options that are furthest from their default on either side, by the median of one situation.
#[derive(Default)]
struct Extremes {
    least: Option<(f64, String)>,
    most: Option<(f64, String)>,
}

impl Extremes {
    fn see(&mut self, ratio: f64, name: &str) {
        if self.least.as_ref().is_none_or(|(least, _)| ratio < *least) {
            self.least = Some((ratio, name.to_owned()));
        }
        if self.most.as_ref().is_none_or(|(most, _)| ratio > *most) {
            self.most = Some((ratio, name.to_owned()));
        }
    }

    fn verdict(&self) -> String {
        let shown = |extreme: &Option<(f64, String)>| {
            let (ratio, name) = extreme.as_ref().expect("an option");
            format!("{} times the time of the default ({name})", text(*ratio))
        };
        format!("The best median of any option is {}, the worst {}.", shown(&self.least), shown(&self.most))
    }
}

fn machines(size: Size) -> [Machine; 4] {
    let processors = thread::available_parallelism().map_or(2, usize::from);
    let work = Work::Compute(Burner::calibrated());
    let computing = |name, workers| {
        let options = theft();
        Machine { name, workers, work, cost: Nanos::new(500), tasks: size.of(20_000, 400), options }
    };
    let sleeping = |name, workers, options| {
        let (cost, tasks) = (Nanos::from_millis(1), workers * size.of(40, 2));
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

fn table(size: Size, machine: &Machine, extremes: &mut Extremes) -> Table {
    let Machine { name, workers, options, .. } = machine;
    let names = SITUATIONS.map(|(name, _)| name);
    let columns = [&["option"], &names[..]].concat();
    let mut table = Table::new(format!("`{name}`: {}", threads(*workers, "worker")), &columns);
    let mut cells: Vec<Vec<String>> = options.iter().map(|(name, _)| vec![name.clone()]).collect();
    for (situation_name, situation) in SITUATIONS {
        let arm = |(_, sharing): &(String, Sharing)| -> Arm<'_, 2> {
            let sharing = *sharing;
            Box::new(move || measure(size, machine, sharing, situation))
        };
        let figures = interleaved(size, options.iter().map(arm).collect());
        let [default, _] = &figures[0];
        for (option, ([time, share], cells)) in figures.iter().zip(&mut cells).enumerate() {
            if option > 0 {
                let name = format!("{} in `{situation_name}` on `{name}`", options[option].0);
                extremes.see(time.over(default).median(), &name);
            }
            cells.push(cell(option, time, default, share));
        }
    }
    cells.into_iter().for_each(|cells| table.row(cells));
    table
}

/// The default as it is, in milliseconds; the others by what the default took in the same round.
fn cell(option: usize, time: &Figures, default: &Figures, share: &Figures) -> String {
    let time = if option == 0 { format!("{} ms", time.text()) } else { time.over(default).text() };
    format!("{time}, {} %", text(share.median()))
}

/// Milliseconds, and the share of tasks that were taken from another's deque, in percent.
fn measure(size: Size, machine: &Machine, sharing: Sharing, situation: Situation) -> [f64; 2] {
    let runtime = Runtime::builder().pool("main", machine.workers).sharing(sharing).build().expect("a runtime");
    let counted = Tasks { work: machine.work, done: Arc::default() };
    let (tasks, time) = situation(size, &runtime, &counted, machine);
    assert_eq!(counted.done.load(Ordering::Relaxed), tasks, "every task runs once");
    [time.as_micros_f64() / 1_000.0, 100.0 * runtime.counters().total().stolen as f64 / tasks as f64]
}

impl Tasks {
    fn run(&self, cost: Nanos) {
        match self.work {
            Work::Compute(burner) => burner.burn(cost),
            Work::Sleep => thread::sleep(cost.into()),
        }
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// Spawns `count` tasks of this cost from the calling task.
    fn spawn(&self, count: usize, cost: Nanos) {
        let spawner = Spawner::current().expect("this is a task");
        for _ in 0..count {
            let tasks = self.clone();
            drop(spawner.spawn(move || tasks.run(cost)));
        }
    }

    /// Spawns one from the calling task, which spawns the next, `generations` in all.
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

fn equal(_: Size, runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    const EACH: usize = IN_A_DEQUE - 2;
    let generations = (machine.tasks / machine.workers / EACH).max(1);
    let (tasks, cost) = (tasks.clone(), machine.cost);
    let load = move |_| (0..EACH).for_each(|_| tasks.repeat(generations, cost));
    (generations * machine.workers * EACH, from_standstill(runtime, machine.workers, load))
}

fn one(size: Size, runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let (tasks, cost) = (tasks.clone(), Nanos::new(Nanos::from_millis(size.of(200, 2)).get() / IN_A_DEQUE as u64));
    let load = move |worker| {
        if worker == 0 {
            tasks.spawn(IN_A_DEQUE, cost);
        }
    };
    (IN_A_DEQUE, from_standstill(runtime, machine.workers, load))
}

fn spawner(_: Size, runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let (count, tasks, cost) = (machine.tasks, tasks.clone(), machine.cost);
    (count, from_one_task(runtime, move || tasks.spawn(count, cost)))
}

fn all(_: Size, runtime: &Runtime, tasks: &Tasks, machine: &Machine) -> (usize, Nanos) {
    let depth = machine.tasks.ilog2();
    let (tasks, cost) = (tasks.clone(), machine.cost);
    ((1 << (depth + 1)) - 2, from_one_task(runtime, move || tasks.branch(depth, cost)))
}
