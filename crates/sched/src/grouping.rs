//! Divides the workers of a large server into groups, so that few workers contend for each queue.
//! Each group has queues, sleepers and a watch set of its own. `runtime/sleep/README.md`, section
//! 7, says when a group takes work from another.

use crate::time::Nanos;

/// About how many workers form a group. In virtual time, 64 workers in one group have a p99.9
/// slowdown of 273 on extreme-bimodal at a load of .9. Four servers of 16 workers each have 24.
const WORKERS_PER_GROUP: usize = 16;

/// The shortest interval at which other groups check a full group. Each check pulls the cache lines
/// of that group's queues to another CPU. An example in virtual time is `steal` on extreme-bimodal
/// at a load of .7. The p99.9 slowdown is 48 with 1 us, and 505 with 10 us.
pub const HELP_EVERY: Nanos = Nanos::from_micros(1);

/// How long one sleeper of an idle group naps before it checks a full group again. Work in the full
/// group waits at most this long for help. A thousand wake-ups a second cost 3 % of an otherwise
/// idle core.
pub const HELP_NAP: Nanos = Nanos::from_millis(1);

/// Whether a worker takes a job from another group although its own has work. `own` and `others`
/// are the jobs waiting in its group and in the other one. The kernel's hash gives some groups a
/// few percent more flows. Without this rule, the whole backlog would collect in those groups.
pub fn is_longer(others: usize, own: usize) -> bool {
    others > 2 * own + WORKERS_PER_GROUP
}

/// The default number of groups for `workers` workers on CPUs with `caches` last-level caches, if
/// that is known. A group of about 16 workers has one cache, a part of one, or several.
pub fn groups_of(workers: usize, caches: Option<usize>) -> usize {
    if workers < 2 * WORKERS_PER_GROUP {
        return 1;
    }
    let Some(caches) = caches.filter(|caches| *caches > 0) else { return workers.div_ceil(WORKERS_PER_GROUP) };
    let near = |one: usize, other: usize| (one + other / 2) / other;
    let per_cache = workers.div_ceil(caches);
    match per_cache >= WORKERS_PER_GROUP {
        true => caches * near(per_cache, WORKERS_PER_GROUP),
        false => caches.div_ceil(near(WORKERS_PER_GROUP, per_cache)),
    }
}

/// The sizes of `groups` groups of `workers` workers in all: as equal as possible, the largest
/// first.
pub fn sizes(workers: usize, groups: usize) -> Vec<usize> {
    (0..groups).map(|group| workers / groups + usize::from(group < workers % groups)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PolicyName, Tuning};

    #[test]
    fn groups_have_about_sixteen_workers() {
        for (workers, caches, groups) in [
            (31, None, 1),
            (32, None, 2),
            (37, None, 3),
            (64, None, 4),
            (64, Some(8), 4),
            (64, Some(4), 4),
            (64, Some(1), 4),
            (96, Some(4), 8),
            (80, Some(4), 4),
            (256, Some(32), 16),
            (48, Some(48), 3),
            (16, Some(4), 1),
        ] {
            assert_eq!(groups_of(workers, caches), groups, "{workers} workers, {caches:?} caches");
        }
        assert_eq!(sizes(37, 3), [13, 12, 12]);
    }

    // A group takes jobs only until it has half as many as the other, so no job moves back and
    // forth.
    #[test]
    fn a_job_moves_between_groups_once() {
        assert!(is_longer(17, 0) && !is_longer(16, 0) && is_longer(37, 10) && !is_longer(36, 10));
        let (mut other, mut own) = (100, 0);
        while is_longer(other, own) {
            (other, own) = (other - 1, own + 1);
        }
        assert_eq!((other, own), (72, 28));
        assert!(!is_longer(own, other));
    }

    // Does a policy on fewer workers equal the one that its row makes for that number?
    #[test]
    fn a_policy_fits_a_smaller_group() {
        for policy in PolicyName::ALL.iter().filter(|policy| policy.entry().may_group()) {
            let made = |workers| policy.entry().make(&Tuning::new(workers, Nanos::from_micros(5))).policy;
            assert_eq!(made(13).on(12), made(12), "{policy}");
            assert_eq!(made(13).on(13), made(13), "{policy}");
        }
    }
}
