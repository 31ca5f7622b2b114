//! Pins the server to some CPUs, and the generator to others.

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The division of CPUs between a server and its generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// Each has CPUs of its own.
    Apart {
        /// The server's.
        server: Vec<usize>,
        /// The generator's.
        generator: Vec<usize>,
    },
    /// Both use all CPUs, because there are too few or the cores are emulated.
    Shared,
}

impl Division {
    /// Divides the CPUs that the calling thread may use: `servers` for the server, at most
    /// `generators` for the generator.
    ///
    /// # Errors
    /// If the system does not say which CPUs these are.
    pub(crate) fn new(servers: usize, generators: usize) -> Result<Division> {
        let allowed = sched_getaffinity(THIS_THREAD).context("asking for the affinity mask")?;
        let cpus = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu).unwrap_or(false));
        Ok(Division::of(&Vec::from_iter(cpus), servers, generators))
    }

    fn of(cpus: &[usize], servers: usize, generators: usize) -> Division {
        let Some((first, others)) = cpus.split_first().filter(|(_, others)| others.len() >= servers) else {
            return Division::Shared;
        };
        // The first CPU often serves interrupts. They disturb the generator's clock readings less
        // than a server.
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
}

const THIS_THREAD: Pid = Pid::from_raw(0);

/// Calls `act` with the calling thread pinned to `cpus`.
///
/// # Errors
/// If the system refuses; otherwise what `act` returns.
fn on_cpus<T, E: From<anyhow::Error>>(cpus: &[usize], act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
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
