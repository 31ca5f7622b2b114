//! What a policy says about a running request: its level, how long it may run, and when it yields.

use super::giving_way::each_looks_after;
use super::{GiveWay, Limit, Local, PRIORITIES, Patience, Policy, Then, interrupted, priority};
use crate::interface::{PoolId, RunningJob, Verdict, View, Watch};
use crate::time::Nanos;
use std::ops::Range;

impl Policy {
    /// The level of `running`; 0 if there are no levels.
    pub(super) fn level_of(&self, running: &RunningJob) -> usize {
        self.ladder(running.class).map_or(0, |ladder| ladder.level(running.attained.plus(running.ran)))
    }

    /// Whether `running` has reached another level since it was last taken from a queue.
    pub(super) fn has_risen(&self, running: &RunningJob) -> bool {
        self.ladder(running.class).is_some_and(|ladder| ladder.level(running.attained) < self.level_of(running))
    }

    /// How long `running` may run on before [`Policy::at_checkpoint`] is asked; `None` = without
    /// limit.
    pub fn ask_after(&self, running: &RunningJob) -> Option<Nanos> {
        match &self.limit {
            Limit::None => None,
            Limit::Attained { ladders, .. } => {
                let attained = running.attained.plus(running.ran);
                ladders.of(running.class).limits().find(|limit| *limit > attained).map(|limit| limit.minus(attained))
            }
            Limit::Stay { slice, then: Then::GiveWay } => Some(slice.minus(running.ran)),
            // If a job has used its slice and runs on because no other waits, the policy is asked
            // again after another slice.
            Limit::Stay { slice, .. } => Some(if running.ran < *slice { slice.minus(running.ran) } else { *slice }),
        }
    }

    /// How long a fresh request runs before another may go first; `None` = to its end.
    pub fn first_slice(&self) -> Option<Nanos> {
        let (attained, ran) = (Nanos::ZERO, Nanos::ZERO);
        self.ask_after(&RunningJob { worker: 0, pool: 0, class: None, attained, ran, flagged: false })
    }

    /// What happens to `running` at a checkpoint.
    pub fn at_checkpoint(&self, running: &RunningJob) -> Verdict {
        match &self.limit {
            Limit::None => Verdict::Keep,
            Limit::Attained { .. } => match self.level_of(running) {
                0 => Verdict::Keep,
                // The job yields whether or not another one waits in a queue. So earlier jobs of
                // its level go first, and also fresh requests that no worker has received yet.
                _ if running.flagged || self.has_risen(running) => Verdict::Yield,
                _ => Verdict::YieldIfWanted,
            },
            Limit::Stay { slice, .. } if running.ran < *slice => Verdict::Keep,
            Limit::Stay { then, .. } => match then {
                Then::Hop if running.pool + 1 < self.topology.pools() => Verdict::Hop(running.pool + 1),
                Then::Hop | Then::Turn => Verdict::TakeTurns,
                Then::GiveWay => Verdict::YieldIfWanted,
            },
        }
    }

    /// What happens to `running`, which asks to move to pool `target`. If there is no such pool, or
    /// the job is in it, the hop counts as a checkpoint.
    pub fn at_hop(&self, running: &RunningJob, target: PoolId) -> Verdict {
        if target < self.topology.pools() && target != running.pool {
            Verdict::Hop(target)
        } else {
            self.at_checkpoint(running)
        }
    }

    /// The queues whose jobs go before `running`, so that it yields to them.
    pub fn goes_first(&self, running: &RunningJob) -> Range<PoolId> {
        match &self.limit {
            Limit::Attained { .. } => 0..interrupted(self.level_of(running)),
            Limit::Stay { then: Then::GiveWay, .. } => {
                let first = running.pool * PRIORITIES;
                first..first + priority(running.class) + 1
            }
            _ => 0..0,
        }
    }

    /// How workers learn of fresh requests; `None` if no request yields to them.
    fn gives_way(&self) -> Option<&GiveWay> {
        self.attained().map(|(_, gives_way)| gives_way)
    }

    /// The CPU time after which a job may be asked to yield for a fresh request; `None` = never.
    pub(crate) fn heavy_from(&self) -> Option<Nanos> {
        self.attained().and_then(|(ladders, _)| ladders.first_limit())
    }

    /// When to leave fresh requests to other workers; `None` = never.
    pub fn patience(&self) -> Option<Patience> {
        self.gives_way().and_then(|gives_way| gives_way.patience)
    }

    /// How closely `running`, on the worker of `local`, watches the sockets of busy workers for
    /// fresh requests.
    pub fn watch(&self, running: &RunningJob, local: &Local, view: &impl View, now: Nanos) -> Watch {
        let Some(gives_way) = self.gives_way() else { return Watch::Never };
        if self.level_of(running) == 0 {
            return Watch::Never;
        }
        let each = |together| each_looks_after(together, self.topology.workers);
        if local.crowded || self.is_scarce(local, view) {
            return Watch::Every(each(self.look_after));
        }
        let wait = self.may_wait(view);
        if wait <= self.look_after && self.left_to_others(view, now, local) == 0 {
            if gives_way.by_looks() { Watch::Looks } else { Watch::Notices }
        } else {
            Watch::Every(wait.min(each(gives_way.rarely)).max(self.look_after))
        }
    }

    /// Whether any job watches for fresh requests.
    pub fn watches(&self) -> bool {
        self.gives_way().is_some()
    }
}
