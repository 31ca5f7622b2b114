//! Do running workers serve all jobs, whichever of the workers sleep or are stuck? Jobs are bytes
//! in pipes, and the engine is a toy.

pub(super) mod numbers;
mod parking;
mod sharing;

use super::*;
use crate::clock;
use crate::sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Ready, Received, Requeued};
use crate::sched::{Resume, Tuning};
use crate::time::Nanos;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicI32;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A test fails after this time; it is longer than any step here takes.
const DEADLINE: Duration = Duration::from_secs(20);

/// A job that keeps its worker until the test releases it.
const STUCK: u8 = 1;
/// A job that hops to the last pool.
const HOPS: u8 = 2;
/// A job that hops to the last pool. At its end it makes two further jobs ready, which keep their
/// workers.
const LETS_OUT: u8 = 3;

/// The sending end of every ingress, and which worker did which job.
struct Playground {
    inputs: Vec<mio::unix::pipe::Sender>,
    done: Receiver<(WorkerId, u8)>,
    /// For workers that were about to sleep or had slept: the worker, and the ingress that it then
    /// tried first.
    looked: Receiver<(WorkerId, Seen, WorkerId)>,
    release: Sender<()>,
    /// The thread of each worker.
    threads: Arc<[AtomicI32]>,
}

/// The state of a worker, by the boundaries that it has reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Awake,
    Idle,
    Rested,
}

struct Toy<'t> {
    worker: WorkerId,
    outputs: &'t [Mutex<mio::unix::pipe::Receiver>],
    done: Sender<(WorkerId, u8)>,
    looked: Sender<(WorkerId, Seen, WorkerId)>,
    seen: Seen,
    held: &'t Mutex<Receiver<()>>,
    shed: &'t AtomicUsize,
    let_out: Vec<u8>,
    /// Whether the last receive has emptied the worker's own ingress.
    emptied: bool,
}

impl Engine for Toy<'_> {
    type Job = (u8, bool);

    fn receive(&mut self, owner: WorkerId, batch: &mut Vec<Arrived<(u8, bool)>>) -> Received {
        let seen = std::mem::replace(&mut self.seen, Seen::Awake);
        if seen != Seen::Awake {
            // The test may have ended, while workers still look.
            let _ = self.looked.send((self.worker, seen, owner));
        }
        let mut bytes = [0; 16];
        let mut pipe = self.outputs[owner].lock().unwrap_or_else(PoisonError::into_inner);
        let datagrams = pipe.read(&mut bytes).unwrap_or(0);
        batch.extend(bytes[..datagrams].iter().map(|job| Arrived { job: (*job, false), class: None }));
        self.emptied = owner == self.worker && datagrams < bytes.len();
        Received { datagrams, more: false }
    }

    fn run(&mut self, (job, moved): (u8, bool), _: Nanos) -> Ran<(u8, bool)> {
        let ran = Nanos::ZERO;
        if matches!(job, HOPS | LETS_OUT) && !moved {
            return Ran::Paused { job: (job, true), resume: Resume::In(1), ran };
        }
        self.done.send((self.worker, job)).expect("the test listens");
        if job == LETS_OUT {
            self.let_out.extend([STUCK; 2]);
        }
        if job == STUCK {
            self.held.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(DEADLINE).expect("let go");
        }
        Ran::Ended { ran }
    }

    fn describe(&self, _: &(u8, bool)) -> Description {
        Description { class: None, attained: Nanos::ZERO }
    }

    fn discard(&mut self, _: (u8, bool), _: Discarded) {
        self.shed.fetch_add(1, Ordering::Relaxed);
    }

    fn requeued(&mut self, _: &mut (u8, bool), _: Requeued) -> bool {
        true
    }

    fn has_emptied_own(&self) -> bool {
        self.emptied
    }

    fn ready(&mut self) -> Option<Ready<(u8, bool)>> {
        let job = self.let_out.pop()?;
        Some(Ready::Arrived(Arrived { job: (job, false), class: None }))
    }

    fn boundary(&mut self, boundary: Boundary) {
        match boundary {
            Boundary::Idle { .. } => self.seen = Seen::Idle,
            Boundary::Rest { .. } => (self.seen, self.emptied) = (Seen::Rested, false),
            _ => {}
        }
    }

    fn now(&self) -> Nanos {
        clock::now()
    }
}

/// Runs workers under `policy` while `test` uses them, then stops them.
fn with_workers(policy: &Policy, wait: Wait, test: impl FnOnce(&mut Playground)) {
    with_switch(policy, wait, |play, _| test(play));
}

/// As [`with_workers`], for a test that switches policies.
fn with_switch(policy: &Policy, wait: Wait, test: impl FnOnce(&mut Playground, &Shared<(u8, bool)>)) {
    let workers = policy.topology.workers;
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        let (input, output) = mio::unix::pipe::new().expect("a pipe");
        inputs.push(input);
        outputs.push(output);
    }
    let (finished, done) = channel();
    let (look, looked) = channel();
    let (release, held) = channel();
    let (held, shed) = (Mutex::new(held), AtomicUsize::new(0));
    let fds: Vec<BorrowedFd<'_>> = outputs.iter().map(AsFd::as_fd).collect();
    let (shared, workers) = Shared::new(policy.clone(), wait, &fds, 1_024).expect("readiness queues");
    let outputs: Vec<_> = outputs.into_iter().map(Mutex::new).collect();
    let threads: Arc<[AtomicI32]> = outputs.iter().map(|_| AtomicI32::new(0)).collect();
    thread::scope(|scope| {
        for worker in workers {
            let mut toy = Toy {
                worker: worker.id,
                outputs: &outputs,
                done: finished.clone(),
                looked: look.clone(),
                seen: Seen::Awake,
                held: &held,
                shed: &shed,
                let_out: Vec::new(),
                emptied: false,
            };
            let (shared, thread) = (&shared, &threads[worker.id]);
            scope.spawn(move || {
                thread.store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
                worker.run(shared, &mut toy);
            });
        }
        // The workers are stopped even if the test panics; otherwise the panic would never be seen.
        let _stop = Stop(&shared);
        test(&mut Playground { inputs, done, looked, release, threads: Arc::clone(&threads) }, &shared);
    });
    assert_eq!(shed.into_inner(), 0, "every queue has room for all that these tests send");
}

/// Whether the kernel has put this thread to sleep.
fn sleeps(thread: &AtomicI32) -> bool {
    let stat = format!("/proc/self/task/{}/stat", thread.load(Ordering::Relaxed));
    std::fs::read_to_string(stat).is_ok_and(|stat| stat.contains(") S "))
}

/// Waits until the kernel has put this thread to sleep.
pub(crate) fn await_sleep(id: &AtomicI32) {
    let until = clock::now().plus(DEADLINE.into());
    while !sleeps(id) {
        assert!(clock::now() < until, "it does not sleep");
        thread::yield_now();
    }
}

struct Stop<'a, J: Send>(&'a Shared<J>);

impl<J: Send> Drop for Stop<'_, J> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Playground {
    fn send(&mut self, ingress: WorkerId, job: u8) {
        assert_eq!(self.inputs[ingress].write(&[job]).expect("room in the pipe"), 1);
    }

    /// The worker that did the next job.
    fn next(&self) -> (WorkerId, u8) {
        self.done.recv_timeout(DEADLINE).expect("a job that was sent is done")
    }
}

/// Every policy, of three workers.
fn policies() -> [Policy; 6] {
    let tuning = Tuning::new(3, Nanos::from_micros(5));
    let [isolated, global, steal, shed, levels] =
        ["isolated", "global", "steal", "shed", "levels"].map(|name| tuning.policy(name));
    [isolated, global, steal, pools(&[2, 1]), shed, levels]
}

fn pools(sizes: &[usize]) -> Policy {
    let tuning = Tuning::new(sizes.iter().sum(), Nanos::from_micros(50));
    Tuning { sizes: Some(sizes.to_vec()), ..tuning }.policy("pools")
}

fn plain(name: &str, workers: usize) -> Policy {
    Tuning::new(workers, Nanos::from_micros(5)).policy(name)
}

/// Is no wake-up lost? Sends one job at a time, into each ingress in turn, when all workers sleep
/// or are about to sleep.
#[test]
fn no_wake_up_is_lost() {
    for wait in [Wait::Park, Wait::Adaptive] {
        for policy in policies() {
            with_workers(&policy, wait, |play| {
                for round in 0..3_000_u32 {
                    play.send(round as usize % 3, 10);
                    // Now and then the workers get time to fall asleep; otherwise the job comes
                    // while they are about to.
                    if round % 64 == 0 {
                        thread::yield_now();
                    }
                    play.next();
                }
            });
        }
    }
}

// Does a worker that found nothing sleep without trying an ingress again? If its own ingress wakes
// it, does it try this one first?
#[test]
fn a_sleeper_looks_into_no_ingress_until_its_own_wakes_it() {
    with_switch(&plain("levels", 2), Wait::Park, |play, shared| {
        for round in 0..40 {
            let owner = round / 3 % 2;
            let until = clock::now().plus(DEADLINE.into());
            // One that has announced itself, and does not wait yet, leaves an arrival to the
            // watcher.
            while !(0..2).all(|worker| shared.idle.is_asleep(worker) && sleeps(&play.threads[worker])) {
                assert!(clock::now() < until, "idle workers sleep");
                thread::yield_now();
            }
            play.looked.try_iter().for_each(drop);
            play.send(owner, 10);
            assert_eq!(play.next(), (owner, 10));
            let looked: Vec<_> = play.looked.try_iter().collect();
            assert_eq!(looked, [(owner, Seen::Rested, owner)], "round {round}");
        }
    });
}

/// All workers but one are stuck. Does the last one, asleep, notice arrivals in the others'
/// ingresses?
#[test]
fn a_stuck_worker_holds_up_nothing_where_others_may_help() {
    for name in ["global", "steal"] {
        with_workers(&plain(name, 3), Wait::Park, |play| {
            play.send(0, STUCK);
            let (first, _) = play.next();
            // The job goes into another worker's ingress.
            play.send((first + 1) % 3, STUCK);
            let (second, _) = play.next();
            assert_ne!(first, second);
            for round in 0..300 {
                play.send(round % 3, 10);
                let (worker, job) = play.next();
                assert_eq!((worker, job), (3 - first - second, 10));
            }
            play.release.send(()).expect("two are stuck");
            play.release.send(()).expect("two are stuck");
        });
    }
}

/// Do jobs that were set aside begin as fresh ones do: in the first pool, on all of its workers,
/// even if these sleep?
#[test]
fn what_is_let_out_begins_where_all_begin() {
    // Without `isolated`, the first policy, because workers do not help one another there.
    let policies = policies().into_iter().skip(1);
    // Each round has new workers, because a worker that is released late could take the job of
    // another.
    for (policy, round) in policies.flat_map(|policy| (0..30).map(move |round| (policy.clone(), round))) {
        with_workers(&policy, Wait::Park, |play| {
            play.send(round % 3, LETS_OUT);
            assert_eq!(play.next().1, LETS_OUT);
            let [first, second] = [play.next(), play.next()];
            assert_eq!([first.1, second.1], [STUCK; 2]);
            assert_ne!(first.0, second.0, "{policy:?}: both at once");
            let is_pools = policy == pools(&[2, 1]);
            assert!(!is_pools || first.0.max(second.0) < 2, "{policy:?}: in the front pool");
            (0..2).for_each(|_| play.release.send(()).expect("two are stuck"));
        });
    }
}
