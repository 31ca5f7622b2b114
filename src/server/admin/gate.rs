//! The gate: while the server is overloaded, the kernel turns away a part of what comes from sources that take too much.
//! `sched/overload` argues the rule; here it is carried out and counted, on the admin thread.

use crate::config::{self, Config};
use crate::handler::Handler;
use crate::metrics::GateState;
use crate::net::{Group, Io, dropped_by_others, program};
use crate::sched::overload::Limits as _;
use crate::sched::overload::sources::{Rules, Sources, Standing};
use crate::server::admin::Probe as _;
use crate::server::admin::control::{Control, Phase};
use crate::server::path::packet::{Make, Packet};
use crate::time::{Nanos, clock};
use std::io;
use std::sync::{MutexGuard, PoisonError};

/// A period. A decision comes no sooner than a queue can stand again, so that it sees what the last one brought.
pub(in crate::server) const DECIDE_EVERY: Nanos = Nanos::from_millis(250);
/// A queue that stands only after a longer time does not delay decisions.
const INTERVAL_MAX: Nanos = Nanos::from_secs(2);
/// All sockets get another program no sooner than after this many times what the last one took: 1 % of a CPU.
const PAUSE: u64 = 100;
/// Workers are busy that idle for less than a tenth of the time.
const IDLE_SHARE: u64 = 10;
/// Full buffers count from 5 % of what is received: less is a burst.
const FULL_SHARE: u64 = 20;
/// The interval of log lines, at least.
const TOLD_EVERY: Nanos = Nanos::from_secs(10);
/// With fewer rules than a 64th of the most, the gate stays open.
const SCALE_MIN: f64 = 1.0 / 64.0;

/// Whether sources are limited under `config`, where datagrams are received with `io`. The kernel passes a GRO batch as
/// one packet, and counts it as one.
pub(in crate::server) fn is_on(config: &Config, io: Io) -> bool {
    config.gate == config::Gate::Auto && io != Io::Gro
}

/// The state of the gate.
#[derive(Debug, Default)]
pub(in crate::server) struct Gate {
    on: bool,
    sources: Sources,
    in_force: Rules,
    /// The part of all rules that the kernel has memory for.
    scale: f64,
    /// The number of samples read, by worker.
    read: Vec<usize>,
    /// Whether full buffers alone brought it on. Else they say nothing while it is on: drops of ours are its own then, and those of
    /// others may be another program's.
    by_full: bool,
    /// Whether a queue stood in the last period.
    stood: bool,
    /// Periods since the last decision, and the queues that stood in them.
    periods: u32,
    standing: Standing,
    last: Reading,
    /// The readings when the gate came on, the drops of others first, and what it had turned away before.
    began: Option<(Drops, u64)>,
    dropped: Option<u64>,
    replace_at: Nanos,
    tell_at: Nanos,
    told: bool,
}

/// Datagrams dropped at our sockets, and dropped for another reason than a filter at any.
type Drops = (u64, u64);

#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    at: Nanos,
    idle: Nanos,
    received: u64,
    drops: Option<Drops>,
}

impl Gate {
    pub(in crate::server) fn new(on: bool) -> Gate {
        Gate { on, scale: 1.0, dropped: Some(0), ..Gate::default() }
    }

    /// For readers outside.
    pub(in crate::server) fn state(&self) -> Option<GateState> {
        self.on.then(|| GateState {
            share: self.sources.let_through(&self.in_force),
            limited: self.in_force.limited.len(),
            dropped: self.dropped,
        })
    }

    fn is_open(&self) -> bool {
        self.in_force == Rules::OPEN
    }

    /// Counts what the gate turned away, as of these readings. The drops of others were read after ours, and before ours
    /// when the gate came on. So they are never too few.
    fn count(&mut self, drops: Option<Drops>) {
        if let Some(((ours, others), before)) = self.began {
            let turned_away = |now: Drops| now.0.saturating_sub(ours).saturating_sub(now.1.saturating_sub(others));
            // What others drop elsewhere must not let the count fall.
            self.dropped = drops.map(|now| (before + turned_away(now)).max(self.dropped.unwrap_or_default()));
        }
    }

    /// Lets the kernel follow `rules`, which differ from those in force.
    fn replace(&mut self, group: &Group, rules: Rules, drops: Option<Drops>) {
        let (opens, began) = (rules == Rules::OPEN, clock::now());
        let shares = rules.pass.iter().map(|prefix| (*prefix, 1.0)).chain(rules.limited.iter().copied());
        let result = match (opens, program(shares, rules.rest)) {
            (true, _) => group.filter(None),
            (false, program) => group.filter(Some(&program)),
        };
        match result {
            Ok(true) => {
                if self.is_open() || opens {
                    self.began = drops.zip(self.dropped).filter(|_| !opens);
                }
                self.in_force = rules;
            }
            Ok(false) => {}
            Err(error) => self.failed(group, &error),
        }
        let now = clock::now();
        self.replace_at = now.plus(now.minus(began).times(PAUSE));
        self.tell(now);
    }

    fn failed(&mut self, group: &Group, error: &io::Error) {
        let _ = group.filter(None);
        self.in_force = Rules::OPEN;
        self.scale /= 2.0;
        // The kernel bounds the memory of filters (`net.core.optmem_max`).
        if error.kind() != io::ErrorKind::OutOfMemory || self.scale < SCALE_MIN {
            self.on = false;
            tracing::warn!(%error, "the gate stays open: the kernel takes no filter");
        }
    }

    /// One line when it comes on and one when it goes off.
    fn tell(&mut self, now: Nanos) {
        if !self.is_open() && !self.told && now >= self.tell_at {
            (self.told, self.tell_at) = (true, now.plus(TOLD_EVERY));
            let share = self.sources.let_through(&self.in_force);
            tracing::warn!(limited = self.in_force.limited.len(), share, "overload: the kernel turns requests away");
        } else if self.is_open() && self.told {
            self.told = false;
            tracing::info!(dropped_at_least = self.dropped, "the gate is open again");
        }
    }
}

impl<'s, H: Handler, M: Make<Packet<'s, H::Ticket>>> Control<'_, 's, '_, H, M> {
    pub(in crate::server) fn gate(&self) -> MutexGuard<'_, Gate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides what the kernel turns away until the next decision.
    pub(super) fn decide(&self) {
        let (samples, mut gate) = (self.common.samples, self.gate());
        if !gate.on || !matches!(self.phase.load(), Phase::Serving | Phase::LameDuck) {
            return;
        }
        let counts = self.bound.metrics.counts();
        let mut reading = Reading { at: clock::now(), idle: counts.idle, received: counts.received, drops: None };
        let last = gate.last;
        let passed = reading.at.minus(last.at).get().saturating_mul(self.bound.config.workers as u64);
        let is_busy = reading.idle.minus(last.idle).get() < passed / IDLE_SHARE;
        if is_busy || !gate.is_open() {
            let before = if gate.is_open() { dropped_by_others().ok() } else { None };
            let ours = self.kernel_dropped();
            reading.drops = ours.zip(before.or_else(|| dropped_by_others().ok()));
        }
        gate.count(reading.drops);
        let is_full = match (reading.drops, last.drops) {
            (Some(now), Some(last_drops)) if is_busy && (gate.by_full || !gate.sources.is_active()) => {
                let lost = now.0.saturating_sub(last_drops.0).min(now.1.saturating_sub(last_drops.1));
                lost > reading.received.saturating_sub(last.received) / FULL_SHARE
            }
            _ => false,
        };
        gate.last = reading;
        let shed = samples.standing();
        if !gate.sources.is_active() {
            gate.by_full = is_full && shed == Standing::None;
        }
        // A pause of the host also makes requests wait, once.
        let lasts = std::mem::replace(&mut gate.stood, shed != Standing::None || is_full);
        let standing = match shed {
            _ if !lasts && !gate.sources.is_active() => Standing::None,
            _ if is_full => Standing::Fresh,
            shed => shed,
        };
        let Gate { sources, read, .. } = &mut *gate;
        let is_active = sources.is_active();
        let is_idle = standing == Standing::None && !is_active;
        samples.read(read, |prefix, validated, count| {
            if !is_idle {
                sources.add(prefix, validated, count);
            }
        });
        (gate.standing, gate.periods) = (gate.standing.max(standing), gate.periods + 1);
        let interval = self.common.limits.bounds(gate.standing == Standing::Continuations).interval;
        if is_active && interval <= INTERVAL_MAX && DECIDE_EVERY.times(gate.periods.into()) < interval {
            return;
        }
        let (standing, periods) = (std::mem::take(&mut gate.standing), std::mem::take(&mut gate.periods));
        let (in_force, scale) = (gate.in_force.clone(), gate.scale);
        let rules = gate.sources.decide(standing, periods, &in_force, scale);
        if rules.differ(&in_force) && (reading.at >= gate.replace_at || rules == Rules::OPEN) {
            gate.replace(&self.bound.listening.group, rules, reading.drops);
        }
    }
}
