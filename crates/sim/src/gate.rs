//! The gate of a server in virtual time. Under overload it drops a share of each source's datagrams
//! before they reach a socket. The same [`Controller`] decides for this gate and for the kernel's
//! filter of a real server.

use forebay_base::source::SourcePrefix;
use forebay_base::time::Nanos;
use forebay_runtime::samples::Samples;
use forebay_sched::overload::sources::{Controller, DECIDE_EVERY, Seen};
use forebay_sched::overload::{WaitBounds, WaitLimits};
use rand::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A gate, with the counts of the last decision.
pub(crate) struct Gate<'a> {
    samples: &'a Samples,
    controller: Controller,
    /// Draws which datagrams of a limited source to drop.
    dice: SplitMix64,
    /// The controller sees simulated times multiplied by this factor, as a server on scaled time
    /// would.
    time_scale: u64,
    last: Counts,
}

/// The totals of a server since its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub at: Nanos,
    /// The time for which its workers found nothing to do, summed over all workers.
    pub idle: Nanos,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams that arrived at a full socket.
    pub lost: u64,
}

/// Space for the gate's samples of a server with `workers` workers. A request takes `beside` more
/// than its cost.
pub(crate) fn samples(workers: usize, beside: Nanos, time_scale: u64) -> Samples {
    Samples::new(workers, beside.times(time_scale), SourcePrefix::NETWORK, true)
}

impl<'a> Gate<'a> {
    /// An open gate that decides by `samples`.
    pub(crate) fn new(samples: &'a Samples, time_scale: u64) -> Gate<'a> {
        // A fixed seed is enough: a run draws from this stream in one order, and no other code
        // draws from it.
        let dice = SplitMix64::seed_from_u64(0x6761_7465);
        Gate { samples, controller: samples.controller(1.0), dice, time_scale, last: Counts::default() }
    }

    /// The shortest time between two decisions, in simulated time.
    pub(crate) fn every(time_scale: u64) -> Nanos {
        Nanos::new(DECIDE_EVERY.get() / time_scale)
    }

    /// Whether the next datagram of `source` enters the server.
    pub(crate) fn lets_in(&mut self, source: u16) -> bool {
        if self.controller.is_open() {
            return true;
        }
        let share = self.controller.in_force.share(source.into());
        share >= 1.0 || ((self.dice.next_u64() >> 11) as f64) < share * (1_u64 << 53) as f64
    }

    /// Decides at `now` by the difference between `counts` and the counts of the last decision.
    pub(crate) fn decide(&mut self, counts: Counts, workers: usize, limits: &WaitLimits, now: Nanos) {
        let last = std::mem::replace(&mut self.last, counts);
        let (standing, shed) = self.samples.standing();
        let is_busy = Seen::is_busy(counts.idle.minus(last.idle), counts.at.minus(last.at), workers);
        let lost = if is_busy { counts.lost - last.lost } else { 0 };
        let seen = Seen { standing, shed, received: counts.received - last.received, lost, is_busy };
        let scaled = |bounds: WaitBounds| WaitBounds { interval: bounds.interval.times(self.time_scale), ..bounds };
        let limits = WaitLimits { fresh: scaled(limits.fresh), interrupted: scaled(limits.interrupted), ..*limits };
        if let Some(rules) = self.controller.decide(&seen, |take| self.samples.read(take), &limits) {
            self.controller.in_force = rules.clone();
            self.samples.gate_changed(rules, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Arrivals, Workload};
    use crate::{ArrivingRequest, Fit, Setup, simulate};
    use forebay_sched::MaxWait;

    /// The share of answered requests: of ten honest sources together, and of a greedy source. The
    /// greedy source asks for three times the capacity. `gate` is the gate's time scale, and
    /// `scale` divides all times.
    fn answered(gate: Option<u64>, scale: u64) -> [f64; 2] {
        const WORKERS: usize = 2;
        let workload: Workload = "fixed:1ms".parse().expect("a form");
        let arrivals = |load: f64, seed| Arrivals::new(&workload, workload.rate_at(load, WORKERS, 1), 10, seed);
        let until = Nanos::from_secs(20);
        let honest = arrivals(0.4, 1).map(|arrival| (arrival, 1 + arrival.flow));
        let greedy = arrivals(3.0, 2).map(|arrival| (arrival, 0));
        let mut all: Vec<_> = honest.take_while(|(arrival, _)| arrival.at < until).collect();
        all.extend(greedy.take_while(|(arrival, _)| arrival.at < until));
        all.sort_by_key(|(arrival, _)| arrival.at);
        let down = |time: Nanos| Nanos::new(time.get() / scale);
        let incoming = all.iter().map(|(arrival, source)| ArrivingRequest {
            class: u8::from(*source == 0),
            source: *source,
            socket: usize::from(arrival.flow) % WORKERS,
            counts: arrival.at > Nanos::from_secs(5),
            ..ArrivingRequest::new(down(arrival.at), down(arrival.cost))
        });
        let fit = Fit::new(&workload, WORKERS, 0.9);
        let setup = Setup { gate, ..Setup::ideal(fit.policy("levels".parse().expect("a policy")).policy) };
        let patience = MaxWait::For(down(Nanos::from_millis(50)));
        let tally = simulate(&setup.with_max_wait(patience, &fit.times, None), incoming);
        let shares = tally.in_time(Nanos::MAX);
        [1, 2].map(|class| shares[class].1)
    }

    // Does the gate protect honest sources from a greedy one, at any time scale?
    #[test]
    fn a_greedy_source_gets_what_is_left() {
        let [honest, greedy] = answered(None, 1);
        assert!((0.2..0.4).contains(&honest) && (0.2..0.4).contains(&greedy), "{honest}, {greedy}: all alike");
        for scale in [1, 10] {
            let [honest, greedy] = answered(Some(scale), scale);
            assert!(honest > 0.98 && greedy > 0.1, "{honest}, {greedy} at {scale}");
        }
    }
}
