//! When the gate decides, and from what. Threads and virtual time follow the same rule.

use super::{Part, Passed, Rules, Sources, Standing};
use crate::overload::WaitLimits;
use crate::time::Nanos;
use std::mem;

/// The length of a period. There is at most one decision per period.
pub const DECIDE_EVERY: Nanos = Nanos::from_millis(250);
/// A decision waits for the interval of a standing queue, so that it sees the effect of the last
/// decision. If the interval is longer than this, there is a decision in every period.
const INTERVAL_MAX: Nanos = Nanos::from_secs(2);
/// Workers count as busy if they are idle for less than one part in this many.
const IDLE_SHARE: u64 = 10;
/// Full buffers count if they drop more than one datagram for each of this many received, 5 %. A
/// burst drops less.
const FULL_SHARE: u64 = 20;

/// CPU time of the requests of one source.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The source's prefix.
    pub prefix: u64,
    /// Whether the source is validated.
    pub validated: bool,
    /// The part of the requests.
    pub part: Part,
    /// The number of samples.
    pub count: u32,
}

/// What happened in one period.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The queues from which something was shed.
    pub standing: Standing,
    /// Number of requests shed before they began: first all, then only those that arrived since the
    /// rules changed.
    pub shed: [u64; 2],
    /// Datagrams that workers received.
    pub received: u64,
    /// Datagrams dropped for lack of room in the sockets, while the workers were busy.
    pub lost: u64,
    /// Whether the workers were busy.
    pub is_busy: bool,
}

impl Seen {
    /// Whether `workers` that were idle for `idle` of the time `passed`, together, were busy.
    pub fn is_busy(idle: Nanos, passed: Nanos, workers: usize) -> bool {
        idle.get() < passed.get().saturating_mul(workers as u64) / IDLE_SHARE
    }
}

/// Collects what happens in each period, and decides the gate's rules.
#[derive(Debug, Default)]
pub struct Controller {
    sources: Sources,
    /// The rules in force. The caller of [`Controller::decide`] sets them once the kernel has
    /// accepted them.
    pub in_force: Rules,
    /// Samples per period that the cores have time for.
    most: f64,
    /// Samples of the time that it takes to shed a request.
    to_shed: f64,
    /// The part of the maximal number of rules that may be in force, up to 1.
    scale: f64,
    /// Whether full sockets alone activated the gate. If a standing queue did, full sockets mean
    /// nothing, because the gate itself drops datagrams.
    by_full: bool,
    /// Whether there was a standing queue in the last period.
    stood: bool,
    /// Number of periods since the last decision.
    periods: u32,
    /// The standing queues in these periods.
    standing: Standing,
    /// Number of requests that were received and not shed since the last decision.
    served: u64,
    /// Number of requests that were shed or dropped for lack of room since the last decision.
    /// Requests that an earlier set of rules admitted do not count, because they say nothing about
    /// the current rules.
    not_served: u64,
    /// All requests shed since the last decision.
    shed: u64,
}

impl Controller {
    /// The controller of a server whose cores have time for `most` samples in a period, and need
    /// `to_shed` samples to shed a request. `scale` is the part of the maximal number of rules for
    /// which there is memory.
    pub fn new(most: f64, to_shed: f64, scale: f64) -> Controller {
        Controller { most, to_shed, scale, ..Controller::default() }
    }

    /// Whether everything is admitted.
    pub fn is_open(&self) -> bool {
        self.in_force == Rules::OPEN
    }

    /// The share of the CPU time requested by all sources that the rules in force admit.
    pub fn let_through(&self) -> f64 {
        self.sources.let_through(&self.in_force)
    }

    /// Whether datagrams dropped for lack of room are counted in this period. They are not while a
    /// standing queue keeps the gate active, because the kernel counts the gate's own drops with
    /// them.
    pub fn counts_lost(&self) -> bool {
        self.by_full || !self.sources.is_active()
    }

    /// Ends a period. `read` calls its argument with each sample of the period. Returns the new
    /// rules if they differ from those in force.
    pub fn decide(
        &mut self,
        seen: &Seen,
        read: impl FnOnce(&mut dyn FnMut(Sample)),
        limits: &WaitLimits,
    ) -> Option<Rules> {
        let &Seen { standing: shed, shed: [all, since], received, is_busy, .. } = seen;
        let (is_active, lost) = (self.sources.is_active(), if self.counts_lost() { seen.lost } else { 0 });
        let is_full = lost > received / FULL_SHARE;
        self.not_served += since + lost;
        self.shed += all;
        self.served += received.saturating_sub(all);
        if !is_active {
            self.by_full = is_full && shed == Standing::None;
        }
        // A pause of the host also makes requests wait, but only in one period. So the gate becomes
        // active only after two periods in a row.
        let lasts = mem::replace(&mut self.stood, shed != Standing::None || is_full);
        let standing = match shed {
            _ if !lasts && !is_active => Standing::None,
            _ if is_full => Standing::Fresh,
            shed => shed,
        };
        let is_idle = standing == Standing::None && !is_active;
        read(&mut |Sample { prefix, validated, part, count }| {
            if !is_idle || validated {
                self.sources.add(prefix, validated, part, count);
            }
        });
        (self.standing, self.periods) = (self.standing.max(standing), self.periods + 1);
        let heavy = self.standing == Standing::Continuations && self.sources.cuts_heavy();
        let interval = limits.of(heavy).interval;
        // If workers are idle, the queue is gone, and a decision need not wait for the interval.
        if is_active && is_busy && interval <= INTERVAL_MAX && DECIDE_EVERY.times(self.periods.into()) < interval {
            return None;
        }
        let (standing, periods) = (mem::take(&mut self.standing), mem::take(&mut self.periods));
        let passed = Passed {
            periods,
            most: self.most,
            shed: self.to_shed * mem::take(&mut self.shed) as f64,
            asked: 1.0 + mem::take(&mut self.not_served) as f64 / mem::take(&mut self.served).max(1) as f64,
        };
        let rules = self.sources.decide(standing, passed, &self.in_force, self.scale);
        rules.differ(&self.in_force).then_some(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAD: [Seen; 2] = [
        // A queue stands, and all that came in vain is shed.
        Seen { standing: Standing::Fresh, shed: [1_000_000; 2], received: 1_001_000, lost: 0, is_busy: true },
        // Sockets are full.
        Seen { standing: Standing::None, shed: [0; 2], received: 1_000, lost: 1_000_000, is_busy: true },
    ];
    const GOOD: Seen = Seen { standing: Standing::None, shed: [0; 2], received: 1_000, lost: 0, is_busy: true };
    const FLOOD: u64 = 7;

    /// The share of a flood, and of another source, after one period more.
    fn shares(controller: &mut Controller, seen: &Seen) -> [f64; 2] {
        let sample = |prefix, count| Sample { prefix, validated: false, part: Part::Later, count };
        let unbegun = Sample { part: Part::Unbegun { requests: 1_000_000.0 }, ..sample(FLOOD, 1) };
        let read =
            |take: &mut dyn FnMut(Sample)| [sample(FLOOD, 5_000), unbegun, sample(1, 10)].into_iter().for_each(take);
        if let Some(rules) = controller.decide(seen, read, &WaitLimits::NONE) {
            controller.in_force = rules;
        }
        [FLOOD, 1].map(|prefix| controller.in_force.share(prefix))
    }

    // Is one bad period no reason to turn a source away, such as a pause of the host, however often
    // it comes? Is a second one in a row, by queues as by full sockets?
    #[test]
    fn the_gate_closes_after_two_bad_periods_in_a_row() {
        for bad in BAD {
            let mut controller = Controller::new(5_000.0, 0.1, 1.0);
            for seen in [bad, GOOD, bad, GOOD, GOOD, bad] {
                assert_eq!(shares(&mut controller, &seen), [1.0; 2], "{seen:?}");
                assert!(controller.is_open());
            }
            let shares: Vec<_> = (0..4).map(|_| shares(&mut controller, &bad)).collect();
            assert!(
                !controller.is_open() && shares[3][0] < 0.1 && shares.iter().all(|[_, other]| *other == 1.0),
                "{shares:?}"
            );
        }
    }

    // Is a part of each source still let in, however long and however great a flood is? Else the
    // server would not see that it has ended.
    #[test]
    fn no_share_falls_to_nothing() {
        for bad in BAD {
            let mut controller = Controller::new(5_000.0, 0.1, 1.0);
            for period in 0..200 {
                let [flood, other] = shares(&mut controller, &bad);
                assert!(flood >= 0.02 && other == 1.0, "{flood} {other} in period {period}");
            }
        }
    }
}
