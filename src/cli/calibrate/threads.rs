//! What passes between two threads: a job through a queue or out of a deque, and a wake-up.

use super::{Effort, Row, Samples};
use crate::config::cpus;
use crate::queue::Sharded;
use crate::time::{Nanos, clock};
use crossbeam_deque::{Steal, Worker};
use mio::{Events, Poll, Token, Waker};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{hint, io, thread};

/// Hand-overs in one sample.
const HAND_OVERS: u64 = 200;
/// Longer than a thread needs to fall asleep.
const ASLEEP_AFTER: Nanos = Nanos::from_micros(200);

/// What passes between threads takes; not known for hand-overs where there is one CPU.
///
/// # Errors
/// When the kernel has no more descriptors for readiness queues.
pub(super) fn measure(effort: Effort) -> io::Result<[Row; 3]> {
    let hand_overs =
        |measure: fn() -> Nanos| (cpus() > 1).then(|| Samples::take(effort.samples(200), HAND_OVERS, measure));
    Ok([
        Row::step("steal", hand_overs(steals), "a job out of another thread's deque"),
        Row::step("hop", hand_overs(hops), "a job through a queue to another thread"),
        Row::step("wake", Samples::of(wakes(effort.samples(500))?), "from the call to the sleeper's first step"),
    ])
}

/// Time of [`HAND_OVERS`] jobs that go to and fro between two threads, by a queue each way.
fn hops() -> Nanos {
    let queues = [Sharded::new(1, 4), Sharded::new(1, 4)];
    let pop = |queue: &Sharded<u64>| {
        loop {
            match queue.pop(0) {
                Some(job) => break job,
                None => hint::spin_loop(),
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..=HAND_OVERS / 2)
                .for_each(|_| assert!(queues[1].push([0; 2], pop(&queues[0])).is_ok(), "there is room"));
        });
        let round = |job| {
            assert!(queues[0].push([0; 2], job).is_ok(), "there is room");
            pop(&queues[1])
        };
        // The first one waits for the thread.
        round(0);
        let start = clock::now();
        (0..HAND_OVERS / 2).for_each(|job| assert_eq!(round(job), job));
        clock::now().minus(start)
    })
}

/// Time of [`HAND_OVERS`] jobs that a thief takes out of the deque of its victim, one after the other.
fn steals() -> Nanos {
    let deque = Worker::new_fifo();
    let (stealer, stolen, took) = (deque.stealer(), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut start = Nanos::ZERO;
            for count in 0..=HAND_OVERS {
                while !matches!(stealer.steal(), Steal::Success(_)) {
                    hint::spin_loop();
                }
                // The first one waits for the thread.
                if count == 0 {
                    start = clock::now();
                }
                // Ordering: relaxed, a count; the deque orders what it hands over.
                stolen.store(count + 1, Ordering::Relaxed);
            }
            // Ordering: relaxed, read after the end of the thread.
            took.store(clock::now().minus(start).get(), Ordering::Relaxed);
        });
        for count in 0..=HAND_OVERS {
            deque.push(count);
            // Ordering: relaxed, see above.
            while stolen.load(Ordering::Relaxed) <= count {
                hint::spin_loop();
            }
        }
    });
    // Ordering: relaxed, the thread has ended. Each steal follows a push on the other CPU: half of it is the thief's.
    Nanos::new(took.into_inner() / 2)
}

/// Nanoseconds from before the call that wakes a sleeping thread to its first step, `count` times.
fn wakes(count: usize) -> io::Result<Vec<f64>> {
    const WAKE: Token = Token(0);
    let mut poll = Poll::new()?;
    let waker = Waker::new(poll.registry(), WAKE)?;
    let (woken_at, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| -> io::Result<()> {
            let mut events = Events::with_capacity(1);
            // Ordering: acquire, pairs with the release of the end.
            while !ended.load(Ordering::Acquire) {
                match poll.poll(&mut events, None) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                    _ => {}
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
            // Ordering: relaxed, the sleeper does not read it.
            woken_at.store(0, Ordering::Relaxed);
            let start = clock::now();
            waker.wake()?;
            // Ordering: acquire, pairs with the release after the wake.
            let mut woken = woken_at.load(Ordering::Acquire);
            while woken == 0 && !sleeper.is_finished() {
                thread::yield_now();
                woken = woken_at.load(Ordering::Acquire);
            }
            wakes.push(Nanos::new(woken).minus(start).get() as f64);
        }
        // Ordering: release, pairs with the acquire at the sleeper's loop.
        ended.store(true, Ordering::Release);
        waker.wake()?;
        sleeper.join().map_err(|_| io::Error::other("a sleeping thread panicked"))??;
        Ok(wakes)
    })
}
