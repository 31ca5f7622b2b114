//! What does a run of a pool cost, and what do the size of tasks, their shape and the number of threads make of it?

use super::contenders::{Contender, Here, Kind, Latch};
use super::harness::{Arm, Size, ns, operations, threads};
use super::page::{Answer, Grid, against_both};
use std::hint::black_box;
use std::sync::Arc;

pub(crate) const QUESTION: &str = "What does a run of a pool cost, and what do the size of tasks, their shape and the number \
    of threads make of it?";

const COLUMNS: [&str; 4] = ["", "Forebay", "rayon", "tokio"];

/// Operations of one unit of work: about 1.3 us.
const UNIT: u64 = 1_000;
/// Units of work in all, where they are shared out among more or fewer tasks.
const UNITS: u64 = 2_000;
/// Workers where their number is not the question.
const WORKERS: usize = 2;

pub(crate) fn ask(size: Size) -> Answer {
    let tables = [built_and_ended(size), standing(size), granularity(size), shapes(size), by_threads(size)];
    let verdict = against_both(&tables.each_ref());
    Answer {
        tables: tables.map(|grid| grid.table).into(),
        not_shown: "What more processors do. rayon's pool does not wait for the ends of its threads when it is dropped; here it \
            does, by its exit handler, as the others do by themselves. All tasks count down one latch when they are done.",
        verdict,
        failure: None,
    }
}

/// An arm for each runtime, of which `measure` says how long something takes.
fn arms<'a>(measure: impl Fn(Kind) -> f64 + Copy + 'a) -> Vec<Arm<'a>> {
    Kind::ALL.map(|kind| -> Arm<'a> { Box::new(move || [measure(kind)]) }).into()
}

/// `count` tasks of `units` each, spawned by one.
fn flat(contender: &Contender, count: usize, units: u64) {
    contender.run(count, move |here, latch| spawn_all(here, latch, count, units));
}

fn spawn_all(here: &Here, latch: &Arc<Latch>, count: usize, units: u64) {
    for _ in 0..count {
        let latch = Arc::clone(latch);
        here.spawn(move || work(&latch, units));
    }
}

fn work(latch: &Latch, units: u64) {
    black_box(operations(units * UNIT));
    latch.count_down();
}

/// Milliseconds of `run` on a pool that stands, and whose threads have run something before.
fn on_standing(size: Size, kind: Kind, workers: usize, run: impl Fn(&Contender)) -> f64 {
    let contender = kind.start(workers);
    let times = size.of(3, 1);
    run(&contender);
    ns(|| (0..times).for_each(|_| run(&contender))) / 1e6 / f64::from(times)
}

fn built_and_ended(size: Size) -> Grid {
    let mut grid = Grid::new("A pool of 2 workers built, N tiny tasks run, and the pool ended, ms", &COLUMNS);
    for (tasks, published) in [(1, "0.716"), (5, "0.750"), (20, "0.717"), (100, "0.916")] {
        let measure = move |kind: Kind| {
            let times = size.of(10, 1);
            let once = || flat(&kind.start(WORKERS), tasks, 0);
            ns(|| (0..times).for_each(|_| once())) / 1e6 / f64::from(times)
        };
        grid.case(size, format!("built and ended, N = {tasks}"), published, arms(measure));
    }
    grid
}

fn standing(size: Size) -> Grid {
    let mut grid = Grid::new("N tiny tasks on a standing pool of 2 workers, one run after the other, us", &COLUMNS);
    for tasks in [1, 5, 20, 100] {
        let measure = move |kind: Kind| {
            let contender = kind.start(WORKERS);
            let times = size.of(200, 1);
            ns(|| (0..times).for_each(|_| flat(&contender, tasks, 0))) / 1e3 / f64::from(times)
        };
        grid.case(size, format!("standing, N = {tasks}"), "-", arms(measure));
    }
    grid
}

fn granularity(size: Size) -> Grid {
    let title = "The same work, 2,000 units of 1.3 us, in more or fewer tasks on 2 workers, ms";
    let mut grid = Grid::new(title, &COLUMNS);
    for (tasks, published) in [(10, "1.29"), (100, "1.94"), (500, "2.92"), (1_000, "5.21")] {
        let units = UNITS / tasks as u64;
        let measure = move |kind| on_standing(size, kind, WORKERS, |contender| flat(contender, tasks, units));
        grid.case(size, format!("{tasks} x {units}"), published, arms(measure));
    }
    grid
}

/// A name, what was published, and a run.
type Shape = (&'static str, &'static str, fn(&Contender));

fn shapes(size: Size) -> Grid {
    let mut grid = Grid::new("The same work in different shapes on 2 workers, ms", &COLUMNS);
    let shapes: [Shape; 4] = [
        ("flat: 1,000 x 2", "5.21", |contender| flat(contender, 1_000, 2)),
        ("nested: 10 x 10 x 20", "5.08", nested),
        ("balanced: 100 x 20", "5.08", |contender| flat(contender, 100, 20)),
        ("skewed: 1 x 1,000, 100 x 10", "4.74", skewed),
    ];
    for (name, published, shape) in shapes {
        grid.case(size, name, published, arms(move |kind| on_standing(size, kind, WORKERS, shape)));
    }
    grid
}

fn nested(contender: &Contender) {
    contender.run(10 + 100, |here, latch| {
        for _ in 0..10 {
            let (inner, latch) = (here.clone(), Arc::clone(latch));
            here.spawn(move || {
                spawn_all(&inner, &latch, 10, 20);
                latch.count_down();
            });
        }
    });
}

fn skewed(contender: &Contender) {
    contender.run(1 + 100, |here, latch| {
        spawn_all(here, latch, 1, 1_000);
        spawn_all(here, latch, 100, 10);
    });
}

fn by_threads(size: Size) -> Grid {
    let mut grid = Grid::new("1,000 tasks of 35 units on some threads, ms", &COLUMNS);
    for (count, published) in [(1, "45.3"), (2, "26.4"), (4, "14.7"), (8, "7.87"), (16, "5.31")] {
        let units = size.of(35, 1);
        let measure = move |kind: Kind| {
            let contender = kind.start(count);
            flat(&contender, 100, 1);
            ns(|| flat(&contender, 1_000, units)) / 1e6
        };
        grid.case(size, threads(count, "thread"), published, arms(measure));
    }
    grid
}
