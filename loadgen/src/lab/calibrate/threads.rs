//! Measures steps between two threads: a job through a queue, a job out of a deque, and a wake-up.

use super::{StepSamples, cpus, samples};
use crossbeam_deque::Worker;
use forebay::inside::runtime::queue::Sharded;
use forebay::time::{Nanos, clock};
use mio::{Events, Poll, Token, Waker};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{hint, io, thread};

/// Hand-overs in one sample.
const HAND_OVERS: u64 = 200;
/// The time after which the other thread is certainly asleep.
const ASLEEP_AFTER: Nanos = Nanos::from_micros(200);

/// Measures hop, steal and wake. Hops and steals are unknown with one CPU.
///
/// # Errors
/// When the kernel has no more descriptors for readiness queues.
pub(super) fn measure(part: usize) -> io::Result<[StepSamples; 3]> {
    let count = if cpus() > 1 { 200 / part } else { 0 };
    let hand_overs = |measure: fn() -> Nanos| samples(count, HAND_OVERS, || Ok(measure()));
    Ok([("steal", hand_overs(steals)?), ("hop", hand_overs(hops)?), ("wake", wakes(500 / part)?)])
}

/// The time of [`HAND_OVERS`] jobs that pass between two threads, through one queue each way.
fn hops() -> Nanos {
    let [near, far] = &[Sharded::new(1, 4), Sharded::new(1, 4)];
    let give = |queue: &Sharded<u64>, job| assert!(queue.push([0; 2], job).is_ok(), "there is room");
    to_and_fro(|job| give(near, job), || far.pop(0), |job| give(far, job), || near.pop(0))
}

/// The time of [`HAND_OVERS`] steals. Each thread steals the job that the other put into its own
/// deque.
fn steals() -> Nanos {
    let (near, far) = (Worker::new_fifo(), Worker::new_fifo());
    let (of_near, of_far) = (near.stealer(), far.stealer());
    let steal_near = || of_near.steal().success();
    to_and_fro(|job| near.push(job), || of_far.steal().success(), move |job| far.push(job), steal_near)
}

/// Time for [`HAND_OVERS`] jobs that go back and forth between two threads. Each thread gives jobs
/// away and takes the other's.
fn to_and_fro(
    give: impl Fn(u64),
    take: impl Fn() -> Option<u64>,
    give_back: impl Fn(u64) + Send,
    take_there: impl Fn() -> Option<u64> + Send,
) -> Nanos {
    thread::scope(|scope| {
        scope.spawn(move || (0..=HAND_OVERS / 2).for_each(|_| give_back(awaited(&take_there))));
        let round = |job| {
            give(job);
            awaited(&take)
        };
        // The first round waits until the other thread runs, so it is not timed.
        round(0);
        let start = clock::now();
        (0..HAND_OVERS / 2).for_each(|job| assert_eq!(round(job), job));
        clock::now().minus(start)
    })
}

fn awaited(take: impl Fn() -> Option<u64>) -> u64 {
    loop {
        match take() {
            Some(job) => break job,
            None => hint::spin_loop(),
        }
    }
}

/// Nanoseconds from the call that wakes a sleeping thread to its first step, `count` times.
fn wakes(count: usize) -> io::Result<Vec<f64>> {
    const WAKE: Token = Token(0);
    let mut poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKE)?;
    // The time at which the sleeper woke; zero while it has not.
    let woken_at = AtomicU64::new(0);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| -> io::Result<()> {
            let mut events = Events::with_capacity(1);
            for _ in 0..count {
                while let Err(error) = poll.poll(&mut events, None) {
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
                // Ordering: release, pairs with the acquire of the thread that woke this one.
                woken_at.store(clock::now().get().max(1), Ordering::Release);
            }
            Ok(())
        });
        let mut wakes = Vec::new();
        for _ in 0..count {
            let asleep_at = clock::now().plus(ASLEEP_AFTER);
            while clock::now() < asleep_at && !sleeper.is_finished() {
                hint::spin_loop();
            }
            let start = clock::now();
            waker.wake()?;
            let woken = loop {
                let over = sleeper.is_finished();
                // Ordering: acquire, pairs with the release after the wake.
                match woken_at.swap(0, Ordering::Acquire) {
                    0 if !over => thread::yield_now(),
                    woken => break woken,
                }
            };
            wakes.push(Nanos::new(woken).minus(start).get() as f64);
        }
        sleeper.join().map_err(|_| io::Error::other("a sleeping thread panicked"))??;
        Ok(wakes)
    })
}
