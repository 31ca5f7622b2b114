//! Measures contention at a queue: the time of one operation for a single thread, and the time that
//! each further thread adds.

use super::{StepSamples, cpus};
use forebay::inside::runtime::queues::Queues;
use forebay::time::{Nanos, clock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{hint, thread};

/// The length of one run. During a run, each user (a thread) pushes jobs and pops jobs.
const SPAN: Nanos = Nanos::from_micros(300);
/// Jobs that a user pushes and pops between two readings of the clock.
const JOBS: u64 = 64;
/// A user must have a CPU for at least this share of a run. Otherwise the others had the queue to
/// themselves.
const ON_CPU_MIN: f64 = 0.9;
/// How many runs to try. The first run counts in which every user had a CPU.
const TRIES: usize = 3;
/// Largest number of users. With more, a run takes longer and the slope is hardly more precise.
const USERS_MAX: usize = 16;

/// Measures the time of one operation for a single user, and the time that each further user adds.
/// There is at most one user per CPU. On a host with one CPU both are unknown, because no two users
/// run at once.
pub(super) fn measure(part: usize) -> [StepSamples; 2] {
    let users = cpus().min(USERS_MAX);
    let measured = |_| {
        let [alone, together] = [1, users].map(|users| (0..TRIES).find_map(|_| operation(users)));
        Some((alone?, (together? - alone?) / (users as f64 - 1.0)))
    };
    let count = if users < 2 { 0 } else { 200 / part };
    let (serial, contend) = (0..count).filter_map(measured).map(|(one, more)| (one, more.max(0.0))).unzip();
    [("serial", serial), ("contend", contend)]
}

/// Nanoseconds per operation (a push or a pop) if this many users share a queue. `None` if the
/// users did not all have a CPU at the same time.
fn operation(users: usize) -> Option<f64> {
    let (queue, ready) = (Queues::new(1, users, 4 * users), AtomicUsize::new(0));
    let used = |user: usize| {
        let mut next = [user];
        // Ordering: relaxed, because this only lets all users begin together. The queue orders its
        // jobs.
        ready.fetch_add(1, Ordering::Relaxed);
        while ready.load(Ordering::Relaxed) < users {
            hint::spin_loop();
        }
        let (start, on_cpu, mut jobs) = (clock::now(), clock::of_thread(), 0);
        while clock::now().minus(start) < SPAN {
            (0..JOBS).for_each(|job| pass(&queue, user, &mut next, job));
            jobs += JOBS;
        }
        let (took, on_cpu) = (clock::now().minus(start).as_secs_f64(), clock::of_thread().minus(on_cpu).as_secs_f64());
        (on_cpu >= ON_CPU_MIN * took).then_some((start, (2 * jobs) as f64 / (took * 1e9)))
    };
    let runs: Option<Vec<(Nanos, f64)>> = thread::scope(|scope| {
        let used = &used;
        let others: Vec<_> = (1..users).map(|user| scope.spawn(move || used(user))).collect();
        let own = used(0);
        let joined = others.into_iter().map(|other| other.join().expect("a user of the queue does not panic"));
        joined.chain([own]).collect()
    });
    let runs = runs?;
    let first = runs.iter().map(|(start, _)| *start).min()?;
    let together = runs.iter().all(|(start, _)| start.minus(first).times(10) < SPAN);
    together.then(|| 1.0 / runs.iter().map(|(_, rate)| rate).sum::<f64>())
}

/// Puts a job into the queue and takes one out. Spins while the queue is full, and while it is
/// empty.
fn pass(queue: &Queues<u64>, user: usize, next: &mut [usize], job: u64) {
    while queue.push(0, user, job).is_err() {
        hint::spin_loop();
    }
    while queue.pop(0, next).is_none() {
        hint::spin_loop();
    }
}
