//! Pools of workers.

use crate::sched::{PoolId, WorkerId};
use std::ops::Range;

/// Which worker belongs to which pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    pools: Vec<Range<WorkerId>>,
}

impl Topology {
    /// Pools of these sizes, in hop order; the first is the ingress.
    ///
    /// # Panics
    /// If there is no pool, or a pool without workers.
    pub fn new(sizes: &[usize]) -> Topology {
        assert!(!sizes.is_empty() && sizes.iter().all(|&size| size > 0), "every pool has a worker");
        let mut first = 0;
        let pools = sizes
            .iter()
            .map(|size| {
                first += size;
                first - size..first
            })
            .collect();
        Topology { pools }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.pools.last().map_or(0, |pool| pool.end)
    }

    /// How many pools there are.
    pub fn pools(&self) -> usize {
        self.pools.len()
    }

    /// The workers of `pool`.
    pub fn members(&self, pool: PoolId) -> Range<WorkerId> {
        self.pools[pool].clone()
    }

    /// The pool of `worker`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn pool_of(&self, worker: WorkerId) -> PoolId {
        self.pools.iter().position(|pool| pool.contains(&worker)).expect("every worker is in a pool")
    }
}
