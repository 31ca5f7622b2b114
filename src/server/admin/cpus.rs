//! Follows the number of CPUs that this process may use, because a cpuset, an affinity mask and a
//! quota may change while it runs.

use std::cmp::Ordering;

/// The number of CPUs that this process may use, at the start and now.
#[derive(Debug)]
pub(crate) struct Cpus {
    at_start: usize,
    now: usize,
}

impl Cpus {
    pub(crate) fn new(cpus: usize) -> Cpus {
        Cpus { at_start: cpus, now: cpus }
    }

    /// Call once a second with the current number of CPUs. After a change, logs and returns how
    /// many of `workers` may work. `parks` is false if only its own worker serves each socket, so
    /// that no worker may park.
    pub(crate) fn follow(&mut self, cpus: usize, workers: usize, parks: bool) -> Option<usize> {
        let before = std::mem::replace(&mut self.now, cpus);
        if cpus == before {
            return None;
        }
        // If the server was started with more workers than CPUs, that was a choice, so the ratio is
        // kept.
        let working = workers.min(cpus.max((workers * cpus).div_ceil(self.at_start)));
        let text = match cpus.cmp(&before) {
            _ if cpus > self.at_start => "this process may use more CPUs than at its start: a restart would use them",
            _ if !parks => "this process may use other CPUs: all workers work, as each alone serves its socket",
            Ordering::Less => "this process may use fewer CPUs: the last workers park",
            _ => "this process may use more CPUs again: parked workers return",
        };
        tracing::warn!(cpus, working, "{text}");
        Some(working)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::admin::logged;

    // Do as many workers work as there are CPUs, or the same share if there are more workers? Is
    // each change one line?
    #[test]
    fn workers_follow_the_cpus() {
        let follow = |workers: usize, parks| {
            let mut cpus = Cpus::new(4);
            let mut working = Vec::new();
            let log = logged(|| working.extend([4, 2, 2, 3, 1, 4, 6].map(|now| cpus.follow(now, workers, parks))));
            let said = ["fewer CPUs", "again", "other CPUs", "a restart"].map(|part| log.matches(part).count());
            assert_eq!(log.lines().count(), 5, "{log}");
            (working, said)
        };
        let all = |working: [usize; 5]| {
            let [two, three, one, four, six] = working.map(Some);
            vec![None, two, None, three, one, four, six]
        };
        assert_eq!(follow(4, true), (all([2, 3, 1, 4, 4]), [2, 2, 0, 1]));
        assert_eq!(follow(3, true), (all([2, 3, 1, 3, 3]), [2, 2, 0, 1]));
        assert_eq!(follow(8, true), (all([4, 6, 2, 8, 8]), [2, 2, 0, 1]));
        assert_eq!(follow(4, false).1, [0, 0, 4, 1]);
    }
}
