//! The gate: under overload, the kernel drops part of the datagrams from sources that take too
//! much. `sched/overload/sources` has the rule; this file applies it and counts the drops.

use crate::config::{self, Config};
use crate::metrics::{Counts, GateState};
use crate::net::{Group, Io, dropped_by_others, program};
use crate::runtime::samples::Samples;
use crate::sched::overload::sources::{Controller, Rules, Seen};
use crate::server::board::Board;
use crate::time::{Breaker, Nanos, Onset, QUIET, Turn, clock};
use std::fs;
use std::hash::{BuildHasher, RandomState};

/// The least time between two filter programs is this for each instruction at each socket. To
/// attach a program costs 180 to 250 ns per instruction, so replacing programs takes about 1 % of a
/// CPU.
const PAUSE: Nanos = Nanos::from_micros(20);
/// Bytes of socket memory for two programs with the most rules (70 kB) and the most trusted
/// networks. A socket holds two programs while one replaces the other.
const MEMORY: f64 = 98_304.0;
/// Bytes that a socket has for filters by default in Linux before 6.8.
const MEMORY_OF_SOCKET: f64 = 20_480.0;

/// Whether the gate is in use under `config`. It is not with GRO, because a filter drops a GRO
/// batch as one packet, and the kernel counts it as one. And `UDP_GRO` cannot be switched off
/// meanwhile, because the datagrams of waiting batches would be merged.
pub(crate) fn is_on(config: &Config) -> bool {
    config.gate == config::Gate::Auto && config.io != Io::Gro
}

/// The state of the gate between two decisions.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    on: bool,
    controller: Controller,
    /// Seed of the programs' hashes.
    seed: u64,
    /// The counters at the last decision, and the drops if they were read.
    last: (Counts, Option<Drops>),
    /// When the gate became active: the kernel's drops until then, and how many of these the gate
    /// had made at least.
    began: Option<(Drops, u64)>,
    /// A lower bound of the datagrams that the gate dropped.
    turned_away: u64,
    /// Whether the drops were unreadable at the last reading while the gate was active.
    unread: bool,
    replace_at: Nanos,
    /// Open for a minute after the kernel has refused a filter.
    breaker: Breaker,
    told: Onset,
}

/// Datagrams dropped at our sockets, and at any socket for another reason than a filter.
type Drops = (u64, u64);

impl Gate {
    pub(crate) fn new(config: &Config, samples: &Samples) -> Gate {
        let on = is_on(config);
        if config.gate == config::Gate::Auto && !on {
            tracing::info!(
                "the gate stays open with --io gro: the kernel counts a GRO batch that it drops as one datagram"
            );
        }
        let scale = scale(&fs::read_to_string("/proc/sys/net/core/optmem_max").unwrap_or_default());
        Gate { on, controller: samples.controller(scale), seed: RandomState::new().hash_one(0), ..Gate::default() }
    }

    /// The state of the gate as metrics show it; `None` if it is not in use.
    pub(crate) fn state(&self) -> Option<GateState> {
        self.on.then(|| GateState {
            share: self.controller.let_through(),
            limited_prefixes: self.controller.in_force.limited.len(),
            dropped_at_least: self.dropped(),
        })
    }

    /// Whether the kernel turns nothing away.
    pub(crate) fn is_open(&self) -> bool {
        self.controller.is_open()
    }

    /// A lower bound of the datagrams that the gate dropped; `None` if unreadable.
    fn dropped(&self) -> Option<u64> {
        (!self.unread).then_some(self.turned_away)
    }

    /// Decides from the workers' samples which share of each source the kernel admits until the
    /// next decision. `kernel_dropped` returns the drops at our sockets since the start.
    pub(crate) fn decide(
        &mut self,
        board: &Board,
        group: &Group,
        config: &Config,
        kernel_dropped: impl FnOnce() -> Option<u64>,
    ) {
        if !self.on {
            return;
        }
        let (samples, counts, mut drops) = (&board.samples, board.metrics.counts(), None);
        let (last, last_drops) = &self.last;
        let (at, received) = (counts.at, counts.received.saturating_sub(last.received));
        let is_busy = Seen::is_busy(counts.idle.minus(last.idle), at.minus(last.at), config.workers);
        let is_open = self.controller.is_open();
        if is_busy || !is_open {
            let before = if is_open { dropped_by_others().ok() } else { None };
            let ours = kernel_dropped();
            drops = ours.zip(before.or_else(|| dropped_by_others().ok()));
        }
        // `lost` are the drops for lack of room. Both counts are upper bounds of it. The drops at
        // our sockets include those of the gate, and the others include drops at sockets of other
        // programs.
        let lost = match (drops, last_drops) {
            (Some(now), Some(last)) if is_busy => now.0.saturating_sub(last.0).min(now.1.saturating_sub(last.1)),
            _ => 0,
        };
        self.last = (counts, drops);
        self.count(drops);
        let (standing, shed) = samples.standing();
        let seen = Seen { standing, shed, received, lost, is_busy };
        let rules = self.controller.decide(&seen, |take| samples.read(take), &board.limits.load());
        if let Some(rules) = rules.filter(|rules| at >= self.replace_at || *rules == Rules::OPEN) {
            self.replace(group, config, rules, drops);
            samples.gate_changed(self.controller.in_force.clone(), clock::now());
        }
    }

    /// Updates the lower bound of datagrams that the gate dropped: the drops at our sockets minus
    /// drops for other reasons. The latter must never be too few. So they are read after ours now,
    /// but before ours when the gate became active.
    fn count(&mut self, drops: Option<Drops>) {
        if self.controller.is_open() {
            return;
        }
        self.unread = drops.is_none();
        let Some(now) = drops else { return };
        // If the drops were unreadable when the gate became active, the count starts here.
        let ((ours, others), before) = *self.began.get_or_insert((now, self.turned_away));
        let turned_away = now.0.saturating_sub(ours).saturating_sub(now.1.saturating_sub(others));
        // The count must not fall, even if other programs' sockets drop more than ours.
        self.turned_away = self.turned_away.max(before + turned_away);
    }

    /// Attaches a program for `rules`, which differ from the rules in force.
    fn replace(&mut self, group: &Group, config: &Config, rules: Rules, drops: Option<Drops>) {
        let opens = rules == Rules::OPEN;
        let shares = rules.pass.iter().map(|prefix| (*prefix, 1.0)).chain(rules.limited.iter().copied());
        let program = program(config.source_prefix, self.seed, shares, rules.rest, &config.trusted_networks);
        let now = clock::now();
        match group.filter(Some(&*program).filter(|_| !opens)) {
            Ok(true) => {
                self.breaker.works();
                if self.controller.is_open() || opens {
                    self.began = drops.filter(|_| !opens).map(|drops| (drops, self.turned_away));
                }
                self.controller.in_force = rules;
            }
            Ok(false) => {}
            Err(error) => {
                let _ = group.filter(None);
                self.controller.in_force = Rules::OPEN;
                if self.breaker.fails(now) {
                    tracing::warn!(%error, "the gate is open, and tried again each minute: the kernel takes no filter");
                }
            }
        }
        let pause = PAUSE.times((program.len() * group.sockets.len()) as u64);
        self.replace_at = now.plus(if self.breaker.is_open() { Breaker::AGAIN_AFTER } else { pause });
        self.tell(now);
    }

    /// Logs when the gate becomes active, and when it has been open for a while.
    fn tell(&mut self, now: Nanos) {
        match self.told.see(!self.controller.is_open(), QUIET, now) {
            Some(Turn::Begins) => {
                let (share, limited) = (self.controller.let_through(), self.controller.in_force.limited.len());
                tracing::warn!(limited, share, "overload: the kernel turns requests away");
            }
            Some(Turn::Ends) => tracing::info!(dropped_at_least = self.dropped(), "the gate is open again"),
            None => {}
        }
    }
}

/// The part of the maximal number of rules that fits into the memory of `net.core.optmem_max`, up
/// to 1.
fn scale(optmem_max: &str) -> f64 {
    (optmem_max.trim().parse().unwrap_or(MEMORY_OF_SOCKET) / MEMORY).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::overload::sources::Standing;
    use crate::sched::overload::{Stay, WaitLimits};
    use crate::server::admin::waiting;

    // Is the gate's count the increase of our drops minus the increase of the others'? Is it absent
    // while unreadable, and does it never fall?
    #[test]
    fn what_cannot_be_read_is_absent() {
        let limits = Rules { rest: 0.5, ..Rules::OPEN };
        let mut gate = Gate { on: true, began: Some(((100, 5), 0)), ..Gate::default() };
        gate.controller.in_force = limits.clone();
        let dropped = |gate: &mut Gate, drops| {
            gate.count(drops);
            gate.state().expect("it is on").dropped_at_least
        };
        assert_eq!(dropped(&mut gate, Some((150, 10))), Some(45));
        assert_eq!(dropped(&mut gate, Some((150, 20))), Some(45), "others drop elsewhere");
        assert_eq!(dropped(&mut gate, None), None);
        assert_eq!(dropped(&mut gate, Some((170, 10))), Some(65));
        // The gate becomes active again while the drops cannot be read, then opens.
        (gate.began, gate.controller.in_force) = (None, limits);
        assert_eq!(dropped(&mut gate, None), None);
        gate.controller.in_force = Rules::OPEN;
        assert_eq!((dropped(&mut gate, None), dropped(&mut gate, Some((500, 0)))), (None, None), "it is open");
        gate.controller.in_force = Rules { rest: 0.25, ..Rules::OPEN };
        assert_eq!((dropped(&mut gate, Some((500, 0))), dropped(&mut gate, Some((510, 0)))), (Some(65), Some(75)));
    }

    // Are there fewer rules if a socket has less memory, or the limit is unknown?
    #[test]
    fn rules_fit_into_the_memory_of_a_socket() {
        assert_eq!(["131072\n", "49152\n", "20480\n", ""].map(|text| (scale(text) * 64.0) as u32), [64, 32, 13, 13]);
    }

    // Does a program stay for the time that its instructions demand, and no longer?
    #[test]
    fn programs_are_replaced_after_a_pause() {
        let config = Config::from_pairs([("listen", "127.0.0.1:0"), ("admin", "off")]).expect("a configuration");
        let group = Group::open(&config.listen, config.workers, config.io).expect("a free port");
        let samples = Samples::new(config.workers, waiting::beside(&config), config.source_prefix, true);
        let board = Board::new(config.workers, samples, WaitLimits::NONE);
        let mut gate = Gate::new(&config, &board.samples);
        let aside = Stay { in_line: 1, ..Stay::default() };
        let mut sampler = board.samples.sampler(0);
        // This source sends so much that limiting it alone is enough.
        let mut flood = || (0..2).for_each(|_| sampler.spend(Nanos::from_millis(400), false, false, || 7, &aside));
        let seen = Seen { standing: Standing::Fresh, shed: [0, 0], received: 0, lost: 0, is_busy: true };
        for _ in 0..2 {
            flood();
            gate.controller.decide(&seen, |take| board.samples.read(take), &WaitLimits::NONE);
        }
        gate.controller.in_force = Rules { rest: 0.5, ..Rules::OPEN };
        flood();
        gate.replace_at = Nanos::MAX;
        gate.decide(&board, &group, &config, || Some(0));
        assert_eq!((gate.controller.in_force.rest, gate.replace_at), (0.5, Nanos::MAX), "the pause is not over");
        flood();
        let begun = clock::now();
        gate.replace_at = Nanos::ZERO;
        gate.decide(&board, &group, &config, || Some(0));
        let ended = clock::now();
        assert_eq!(gate.controller.in_force.rest, 1.0, "{:?}", gate.controller.in_force);
        let pause = |instructions: u64| PAUSE.times(instructions * config.workers as u64);
        assert!(
            gate.replace_at >= begun.plus(pause(30)) && gate.replace_at < ended.plus(pause(100)),
            "{}",
            gate.replace_at
        );
    }
}
