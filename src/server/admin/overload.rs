//! When the kernel turns requests away, decided on the admin thread from what the workers noted.

use super::control::{Control, Phase};
use super::gate::{Asked, DECIDE_EVERY, Gate, Reading};
use crate::handler::Handler;
use crate::net::dropped_by_others;
use crate::runtime::continuation::lock;
use crate::sched::overload::Limits as _;
use crate::sched::overload::sources::{Rules, Standing};
use crate::server::admin::Probe as _;
use crate::server::path::packet::{Make, Packet};
use crate::time::{Nanos, clock};

/// A queue that stands only after a longer time does not delay decisions.
const INTERVAL_MAX: Nanos = Nanos::from_secs(2);
/// Workers are busy that idle for less than a tenth of the time.
const IDLE_SHARE: u64 = 10;
/// Full buffers count from 5 % of what is received: less is a burst.
const FULL_SHARE: u64 = 20;

impl<'s, H: Handler, M: Make<Packet<'s, H::Ticket>>> Control<'_, 's, '_, H, M> {
    /// Decides what the kernel turns away until the next decision.
    pub(super) fn decide(&self) {
        let (samples, mut gate) = (self.common.samples, lock(&self.gate));
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
        let received = reading.received.saturating_sub(last.received);
        let lost = match (reading.drops, last.drops) {
            (Some(now), Some(last_drops)) if is_busy && (gate.by_full || !gate.sources.is_active()) => {
                now.0.saturating_sub(last_drops.0).min(now.1.saturating_sub(last_drops.1))
            }
            _ => 0,
        };
        let is_full = lost > received / FULL_SHARE;
        gate.last = reading;
        let (shed, [all, since]) = samples.standing();
        gate.asked.turned_away += since + lost;
        gate.asked.served += received.saturating_sub(all);
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
            if !is_idle || validated {
                sources.add(prefix, validated, count);
            }
        });
        (gate.standing, gate.periods) = (gate.standing.max(standing), gate.periods + 1);
        let interval = self.common.limits.bounds(gate.standing == Standing::Continuations).interval;
        // Workers that idle need no longer look.
        if is_active && is_busy && interval <= INTERVAL_MAX && DECIDE_EVERY.times(gate.periods.into()) < interval {
            return;
        }
        let (standing, periods) = (std::mem::take(&mut gate.standing), std::mem::take(&mut gate.periods));
        let Asked { served, turned_away } = std::mem::take(&mut gate.asked);
        let asked = 1.0 + turned_away as f64 / served.max(1) as f64;
        let (in_force, scale) = (gate.in_force.clone(), gate.scale);
        let rules = gate.sources.decide(standing, periods, asked, &in_force, scale);
        if rules.differ(&in_force) && (reading.at >= gate.replace_at || rules == Rules::OPEN) {
            gate.replace(&self.bound.listening.group, self.bound.config.source_prefix, rules, reading.drops);
            samples.gate_changed(clock::now());
        }
    }
}
