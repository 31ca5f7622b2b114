//! The backlogs on which ideas of sharing are compared: equal and skewed, from one spawner and from all.

use super::harness::{Arm, Figures, Size, interleaved, operations, processors};
use super::latencies::Latencies;
use super::mini::{self, Job, Next, Order, Rules, Sharing, Victim};
use super::page::{CROWDED, Table};
use forebay::time::{Nanos, clock};
use std::hint::black_box;

/// How jobs come to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backlog {
    /// Each thread begins with as many.
    Equal,
    /// One thread begins with all.
    Skewed,
    /// One job spawns all others.
    OneSpawner,
    /// Every job spawns two, until there are enough.
    AllSpawn,
}

const BACKLOGS: [(&str, Backlog); 4] = [
    ("equal", Backlog::Equal),
    ("skewed", Backlog::Skewed),
    ("one spawner", Backlog::OneSpawner),
    ("all spawn", Backlog::AllSpawn),
];

/// Operations of a job: about 0.5 us.
const COST: u64 = 400;

/// What was measured of stealing and of the other idea, with some threads.
pub(crate) struct Compared {
    pub(crate) table: Table,
    /// By row: of stealing and of the other, millions of jobs per second, p99.9 in microseconds, failed steals for each job.
    pub(crate) rows: Vec<(String, [[Figures; 3]; 2])>,
}

/// Compares `idea` with stealing.
pub(crate) fn compare(size: Size, name: &str, idea: Sharing) -> Compared {
    let columns = ["backlog, threads", "way", "jobs, millions/s", "p99.9, us", "failed steals for each job"];
    let jobs = size.of(20_000, 500);
    let mut table = Table::new(format!("{jobs} jobs of 0.5 us; latency counts from the spawn or the start"), &columns);
    let mut rows = Vec::new();
    for (pools, threads) in [(&[2], 2), (&[8], 8)] {
        let mark = if threads > processors() { CROWDED } else { "" };
        for (backlog_name, backlog) in BACKLOGS {
            let arm = |sharing| -> Arm<'static, 3> {
                let rules = Rules { pools, order: Order::Fifo, victim: Victim::Random, sharing };
                Box::new(move || measure(rules, backlog, threads, jobs))
            };
            let figures = interleaved(size, vec![arm(Sharing::Steal), arm(idea)]);
            let case = format!("{backlog_name}, {threads}");
            for (way, figures) in ["stealing", name].into_iter().zip(&figures) {
                let cells = [format!("{case}{mark}"), way.to_owned()].into_iter();
                table.row(cells.chain(figures.iter().map(Figures::text)).collect());
            }
            rows.push((case, <[_; 2]>::try_from(figures).expect("two arms")));
        }
    }
    Compared { table, rows }
}

impl Compared {
    /// How many times the figure of stealing the other has: the median of `quantity` in the case.
    pub(crate) fn over(&self, case: &str, quantity: usize) -> f64 {
        let (_, [stealing, other]) = self.rows.iter().find(|(name, _)| name == case).expect("a case");
        other[quantity].over(&stealing[quantity]).median()
    }
}

struct Spawning {
    number: usize,
    /// The numbers of the jobs to spawn: from the first, up to the second.
    spawns: std::ops::Range<usize>,
    /// All jobs of the run, where every job spawns two.
    tree: usize,
    born: Nanos,
    latencies: Latencies,
}

impl Job for Spawning {
    fn part(&mut self, spawned: &mut Vec<Spawning>) -> Next {
        let born = clock::now();
        spawned.extend(self.spawns.clone().map(|number| Spawning {
            number,
            spawns: children(number, self.tree),
            tree: self.tree,
            born,
            latencies: self.latencies.clone(),
        }));
        black_box(operations(COST));
        self.latencies.ended(self.number, self.born);
        Next::Done
    }
}

/// The children of a node of a complete tree of two branches with this number of nodes; none if it has no nodes.
fn children(number: usize, nodes: usize) -> std::ops::Range<usize> {
    (2 * number + 1).min(nodes.max(1))..(2 * number + 3).min(nodes.max(1))
}

fn measure(rules: Rules, backlog: Backlog, threads: usize, jobs: usize) -> [f64; 3] {
    let (latencies, born) = (Latencies::new(jobs), clock::now());
    let tree = if backlog == Backlog::AllSpawn { jobs } else { 0 };
    let job = |number| {
        let spawns = match backlog {
            Backlog::OneSpawner => 1..jobs,
            Backlog::AllSpawn => children(number, tree),
            Backlog::Equal | Backlog::Skewed => 0..0,
        };
        Spawning { number, spawns, tree, born, latencies: latencies.clone() }
    };
    let seeds = match backlog {
        Backlog::Equal => (0..threads).map(|thread| (thread..jobs).step_by(threads).map(job).collect()).collect(),
        Backlog::Skewed => vec![(0..jobs).map(job).collect()],
        Backlog::OneSpawner | Backlog::AllSpawn => vec![vec![job(0)]],
    };
    let ran = mini::run(rules, jobs, seeds, std::iter::empty());
    let p99_9 = latencies.sorted().quantile(0.999);
    [jobs as f64 / ran.ns * 1e3, p99_9 / 1e3, ran.failed_steals as f64 / jobs as f64]
}
