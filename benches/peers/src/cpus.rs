//! Who runs where: the server on one CPU, the generator on another.

use anyhow::{Context, Result};
use forebay::time::{Nanos, clock};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, thread};

/// The division of CPUs between a server of one worker and its generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// A CPU each.
    Apart {
        /// The server's.
        server: usize,
        /// The generator's.
        generator: usize,
    },
    /// There is only one, which they share: figures then say little.
    Shared,
}

impl Division {
    /// Divides the CPUs that the calling thread may use.
    ///
    /// # Errors
    /// If the system does not tell which these are.
    pub(crate) fn new() -> Result<Division> {
        let allowed = sched_getaffinity(THIS_THREAD).context("asking for the affinity mask")?;
        let mut cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        Ok(match (cpus.next(), cpus.next()) {
            (Some(generator), Some(server)) => Division::Apart { server, generator },
            _ => Division::Shared,
        })
    }

    /// Calls `start` on the server's CPU, so that the process which it starts stays there.
    ///
    /// # Errors
    /// If the system refuses; otherwise what `start` returns.
    pub(crate) fn on_server_cpu<T, E: From<anyhow::Error>>(self, start: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let Division::Apart { server, .. } = self else { return start() };
        on_cpu(server, start)
    }

    /// Calls `drive` on the generator's CPU.
    ///
    /// # Errors
    /// If the system refuses; otherwise what `drive` returns.
    pub(crate) fn on_generator_cpu<T, E: From<anyhow::Error>>(
        self,
        drive: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Division::Apart { generator, .. } = self else { return drive() };
        on_cpu(generator, drive)
    }

    /// The median time for a cache line to travel from one CPU to the other and back: the two may share a core today
    /// and lie on different sockets tomorrow. `None` where there is but one, or where the two threads do not run at the same
    /// time, so that each trip takes a time slice.
    ///
    /// # Errors
    /// If the system refuses to pin.
    pub(crate) fn round_trip_ns(self) -> Result<Option<f64>> {
        const TRIPS: u64 = 2_000;
        const SAMPLES: usize = 15;
        const PATIENCE: Nanos = Nanos::from_secs(2);
        let Division::Apart { server, generator } = self else { return Ok(None) };
        let ball = AtomicU64::new(0);
        let deadline = clock::now().plus(PATIENCE);
        // Passes the ball on once it is `mine`; false if it does not come in time. Ordering: relaxed, the ball carries nothing
        // but itself.
        let pass = |mine: u64| {
            for spin in 1_u64.. {
                if ball.load(Ordering::Relaxed) == mine {
                    ball.store(mine + 1, Ordering::Relaxed);
                    return true;
                }
                // A trip is over long before the clock is read.
                if spin.is_multiple_of(4_096) && clock::now() > deadline {
                    return false;
                }
                spin_loop();
            }
            false
        };
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                on_cpu(server, || {
                    let _ = (0..TRIPS * SAMPLES as u64).all(|trip| pass(2 * trip + 1));
                    anyhow::Ok(())
                })
            });
            let mut samples = on_cpu(generator, || {
                let mut samples = Vec::new();
                for sample in 0..SAMPLES as u64 {
                    let began = clock::now();
                    if !(sample * TRIPS..(sample + 1) * TRIPS).all(|trip| pass(2 * trip)) {
                        break;
                    }
                    samples.push(clock::now().minus(began).get() as f64 / TRIPS as f64);
                }
                anyhow::Ok(samples)
            })?;
            other.join().expect("playing does not panic")?;
            samples.sort_unstable_by(f64::total_cmp);
            Ok(samples.get(SAMPLES / 2).copied())
        })
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Division::Apart { server, generator } => write!(f, "server on CPU {server}, generator on CPU {generator}"),
            Division::Shared => f.write_str("server and generator share one CPU: figures say little"),
        }
    }
}

const THIS_THREAD: Pid = Pid::from_raw(0);

fn on_cpu<T, E: From<anyhow::Error>>(cpu: usize, act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = sched_getaffinity(THIS_THREAD).context("asking for the affinity mask")?;
    let mut one = CpuSet::new();
    one.set(cpu).and_then(|()| sched_setaffinity(THIS_THREAD, &one)).context("pinning")?;
    let result = act();
    sched_setaffinity(THIS_THREAD, &before).context("unpinning")?;
    result
}
