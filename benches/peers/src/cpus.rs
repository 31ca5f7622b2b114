//! Who runs where: the server on some CPUs, the generator on others.

use anyhow::{Context, Result};
use forebay::time::{Nanos, clock};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, thread};

/// The division of CPUs between a server and its generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// CPUs of its own for each.
    Apart {
        /// The server's.
        server: Vec<usize>,
        /// The generator's.
        generator: Vec<usize>,
    },
    /// There are too few, so that both use all of them: figures then say little.
    Shared,
}

impl Division {
    /// Divides the CPUs that the calling thread may use: `servers` for the server, at most `generators` for the generator.
    ///
    /// # Errors
    /// If the system does not tell which these are.
    pub(crate) fn new(servers: usize, generators: usize) -> Result<Division> {
        let allowed = sched_getaffinity(THIS_THREAD).context("asking for the affinity mask")?;
        let cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        Ok(Division::of(&Vec::from_iter(cpus), servers, generators))
    }

    fn of(cpus: &[usize], servers: usize, generators: usize) -> Division {
        let Some((first, others)) = cpus.split_first().filter(|(_, others)| others.len() >= servers) else {
            return Division::Shared;
        };
        // The first CPU often serves interrupts: the generator's clock readings suffer from these less than a server.
        let generator = std::iter::once(first).chain(&others[servers..]).take(generators);
        Division::Apart { server: others[..servers].to_vec(), generator: generator.copied().collect() }
    }

    /// Calls `start` on the server's CPUs, so that the process which it starts stays there.
    ///
    /// # Errors
    /// If the system refuses; otherwise what `start` returns.
    pub(crate) fn on_server_cpus<T, E: From<anyhow::Error>>(
        &self,
        start: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Division::Apart { server, .. } = self else { return start() };
        on_cpus(server, start)
    }

    /// Calls `drive` on the generator's CPUs.
    ///
    /// # Errors
    /// If the system refuses; otherwise what `drive` returns.
    pub(crate) fn on_generator_cpus<T, E: From<anyhow::Error>>(
        &self,
        drive: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let Division::Apart { generator, .. } = self else { return drive() };
        on_cpus(generator, drive)
    }

    /// The median time for a cache line to travel from one CPU to the other and back: the two may share a core today
    /// and lie on different sockets tomorrow. `None` where there is but one, or where the two threads do not run at the same
    /// time, so that each trip takes a time slice.
    ///
    /// # Errors
    /// If the system refuses to pin.
    pub(crate) fn round_trip_ns(&self) -> Result<Option<f64>> {
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
                on_cpus(&server[..1], || {
                    let _ = (0..TRIPS * SAMPLES as u64).all(|trip| pass(2 * trip + 1));
                    anyhow::Ok(())
                })
            });
            let mut samples = on_cpus(&generator[..1], || {
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
        let named = |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ");
        match self {
            Division::Apart { server, generator } => {
                write!(f, "server on CPU {}, generator on CPU {}", named(server), named(generator))
            }
            Division::Shared => f.write_str("server and generator share one CPU: figures say little"),
        }
    }
}

const THIS_THREAD: Pid = Pid::from_raw(0);

/// Calls `act` with the calling thread pinned to `cpus`.
///
/// # Errors
/// If the system refuses; otherwise what `act` returns.
pub(crate) fn on_cpus<T, E: From<anyhow::Error>>(cpus: &[usize], act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let before = sched_getaffinity(THIS_THREAD).context("asking for the affinity mask")?;
    let mut mask = CpuSet::new();
    cpus.iter().try_for_each(|cpu| mask.set(*cpu)).context("naming CPUs")?;
    sched_setaffinity(THIS_THREAD, &mask).context("pinning")?;
    let result = act();
    sched_setaffinity(THIS_THREAD, &before).context("unpinning")?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cpu_is_the_servers_and_the_generators() {
        let apart = |server: &[usize], generator: &[usize]| Division::Apart {
            server: server.to_vec(),
            generator: generator.to_vec(),
        };
        assert_eq!(Division::of(&[4, 5, 6, 7], 1, 1), apart(&[5], &[4]));
        assert_eq!(Division::of(&[4, 5, 6, 7], 1, 2), apart(&[5], &[4, 6]));
        assert_eq!(Division::of(&[4, 5, 6, 7], 2, 2), apart(&[5, 6], &[4, 7]));
        assert_eq!(Division::of(&[0, 1], 1, 2), apart(&[1], &[0]));
        assert_eq!(Division::of(&[0, 1], 2, 2), Division::Shared);
        assert_eq!(Division::of(&[], 0, 1), Division::Shared);
    }
}
