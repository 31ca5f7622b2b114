//! Adapts to measurements, once a second: the policy, the limits on waiting, and the expected
//! service times. A server's admin thread and a server in virtual time call the same function.

use super::auto::Auto;
use super::estimate::{ServiceTimes, TimesOfClass};
use super::overload::WaitLimits;
use super::policy::{Made, PolicyName};
use super::tuning::{MaxWait, Measured, Tuning};
use crate::Recent;
use crate::time::Nanos;

/// The current policy and limits on waiting, with the state needed to change them.
#[derive(Clone, Debug)]
pub struct Adaptation {
    /// The configured policy, which may be `auto`.
    name: PolicyName,
    tuning: Tuning,
    /// Whether cores are emulated. On emulated cores, the time outside handlers is a configured
    /// charge instead of a measurement.
    emulated: bool,
    /// The largest group's share of the measured work, from 0 to 1. The policy is made for that
    /// group.
    pub share: f64,
    /// The current policy, with its parameters and reason.
    pub made: Made,
    /// How long requests may wait, and the expected service times.
    pub limits: WaitLimits,
    /// The decision rule of `auto`; `None` under other policies.
    auto: Option<Auto>,
    /// Number of workers that are parked because the process may use fewer CPUs. Set it before
    /// [`Adaptation::follow`].
    pub parked: usize,
}

impl Adaptation {
    /// The policy called `name`, made from `tuning`. Under `auto`, measurements in `tuning` decide
    /// at once, without hysteresis.
    pub fn new(name: PolicyName, tuning: Tuning, emulated: bool) -> Adaptation {
        let auto = (name.name() == "auto").then(|| Auto::settled(&tuning));
        let made = made(&auto, name, &tuning);
        let limits = WaitLimits::unmeasured(tuning.max_wait);
        Adaptation { name, tuning, emulated, share: 1.0, made, limits, auto, parked: 0 }
    }

    /// Changes the setting `--max-wait`. A fixed limit holds at once, a measured one from the next
    /// measurement on.
    pub fn set_max_wait(&mut self, max_wait: MaxWait) {
        if max_wait != self.tuning.max_wait {
            self.tuning.max_wait = max_wait;
            let expected = if max_wait == MaxWait::Off { WaitLimits::NONE.expected } else { self.limits.expected };
            self.limits = WaitLimits { expected, ..WaitLimits::unmeasured(max_wait) };
        }
    }

    /// Updates the limits and the policy from `recent` measurements. Returns true if the policy
    /// changed. Call it every second.
    pub fn follow(&mut self, recent: &Recent) -> bool {
        let times = ServiceTimes::new(recent.service_times.iter().copied());
        let of_class = self.tuning.classified.then(|| of_class(recent));
        self.limits.follow(&self.tuning, self.made.policy.first_slice(), &times, of_class.as_ref());
        self.follow_policy(recent)
    }

    fn follow_policy(&mut self, recent: &Recent) -> bool {
        // The decision of `auto` must fit the current mix of requests. So after a shift of the mix,
        // it uses only measurements from after the shift. Other policies only tune parameters,
        // which should change smoothly.
        let of_this_mix = recent.since_shift.as_deref().filter(|_| self.auto.is_some()).unwrap_or(recent);
        let mut measured = measured(of_this_mix, self.emulated, self.tuning.classified);
        measured.has_shifted = recent.has_shifted;
        measured.parked = self.parked;
        measured.are_left = are_left(of_this_mix, self.tuning.working(Some(&measured)) as f64 / self.share);
        measured.busy_workers *= self.share;
        let decided = self.auto.as_mut().is_some_and(|auto| auto.decide(&measured).is_some());
        // A second without requests gives no reason to change the policy.
        if measured.times.count() == 0 && recent.by_class.iter().all(|(count, _)| *count == 0) {
            return false;
        }
        self.tuning.measured = Some(measured);
        let made = made(&self.auto, self.name, &self.tuning);
        if !decided && made.is_like(&self.made) {
            self.made.reason = made.reason;
            return false;
        }
        self.made = made;
        true
    }
}

fn of_class(recent: &Recent) -> TimesOfClass {
    recent.times_of_class.each_ref().map(|times| ServiceTimes::new(times.iter().copied()))
}

/// The policy called `name`, or the current choice of `auto`, made from `tuning`.
fn made(auto: &Option<Auto>, name: PolicyName, tuning: &Tuning) -> Made {
    auto.as_ref().map_or_else(|| name.entry().make(tuning), |auto| auto.current.explained(tuning))
}

/// If more than this share of the handlers' time is spent in requests without checkpoints,
/// preempting the other requests gains nothing.
const UNINTERRUPTIBLE_SHARE: f64 = 0.999;

/// If a smaller share of workers is idle, requests count as left over ([`are_left`]). It is above
/// zero because a worker is idle for moments even while requests wait elsewhere.
const IDLE_SHARE: f64 = 0.02;
/// If unfinished requests take more than this share of the handlers' time, requests count as left
/// over. The finished ones are then not representative.
const UNENDED_SHARE: f64 = 0.1;

/// Whether requests are left over: almost no worker is idle, or unfinished requests take much of
/// the time.
fn are_left(recent: &Recent, workers: f64) -> bool {
    recent.busy_workers > 0.0
        && (recent.idle_workers < IDLE_SHARE * workers || recent.unended_workers > UNENDED_SHARE * recent.busy_workers)
}

/// Turns `recent` into the input of policies, and adds the mean time that a request takes outside
/// its handler. That time is charged on emulated cores, and measured on real ones.
fn measured(recent: &Recent, emulated: bool, classified: bool) -> Measured {
    let mut times = ServiceTimes::new(recent.service_times.iter().copied());
    times.run_to_completion = recent.uninterruptible_workers > recent.busy_workers * UNINTERRUPTIBLE_SHARE;
    let beside_workers = if emulated { recent.charged_workers } else { recent.between_workers };
    let beside = if recent.rate > 0.0 { beside_workers / recent.rate } else { 0.0 };
    let beside = Nanos::new((beside * 1e9).round() as u64);
    let of_class = classified.then(|| Box::new(of_class(recent)));
    Measured { of_class, ..Measured::new(times, beside, recent.busy_workers + beside_workers) }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the time outside handlers the measured one on real cores, and the charged one on emulated
    // cores?
    #[test]
    fn all_work_counts_on_real_and_on_emulated_cores() {
        let recent = Recent {
            between_workers: 3.0,
            charged_workers: 6.0,
            rate: 1e6,
            service_times: vec![(Nanos::from_micros(1), 1_000)],
            busy_workers: 2.0,
            ..Recent::default()
        };
        for (emulated, workers, beside_ns) in [(false, 5.0, 3_000), (true, 8.0, 6_000)] {
            let measured = measured(&recent, emulated, false);
            assert_eq!((measured.busy_workers, measured.times.beside), (workers, Nanos::new(beside_ns)));
        }
        let unknown = measured(&Recent { rate: 0.0, ..recent }, false, false);
        assert_eq!(unknown.times.beside, Nanos::ZERO);
    }
}
