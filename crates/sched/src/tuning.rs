//! The input from which policies are made, in the server, the simulator, the planner and `loadgen
//! compare`.

use super::estimate::{ServiceTimes, TimesOfClass};
use crate::fate::labels;
use crate::time::{Nanos, duration_within};
use std::fmt;
use std::str::FromStr;

/// Default of [`Policy::stuck_after`](super::Policy::stuck_after), before the time scale. It is
/// longer than a light request with its kernel part, so thieves leave a socket alone whose worker
/// is soon back.
const THIEF_THRESHOLD: Nanos = Nanos::from_micros(20);

/// The range of [`MaxWait::For`].
const FOR_MIN: Nanos = Nanos::from_micros(1);
const FOR_MAX: Nanos = Nanos::from_secs(3_600);

/// With groups, passing on a request counts as this many times as expensive, because 16 workers
/// contend for the queue. An example in virtual time is 64 workers with fixed costs of 10 us at a
/// load of .7. The p99.9 slowdown is 2.4 under `global`, and 2.2 with one level. With costs of 2.5
/// us, `global` cannot keep up.
const AMONG_GROUPS: u64 = 8;

/// The input of policies: workers, settings, costs and measurements.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Number of workers, at least one.
    pub workers: usize,
    /// Number of groups of `workers` workers, at least one.
    pub groups: usize,
    /// CPU time after which a request counts as heavy: the setting `slice`.
    pub budget: Nanos,
    /// Number of workers in each pool; `None` = the policy's default. The sum is `workers`.
    pub sizes: Option<Vec<usize>>,
    /// Whether policies may use a request's class.
    pub classified: bool,
    /// How long a worker must be in one job before others receive from its socket; `None` = the
    /// default.
    pub thief_threshold: Option<Nanos>,
    /// Factor on times that are not settings: thief threshold, slices, intervals between looks.
    pub time_scale: u64,
    /// CPU time of a yield.
    pub yield_cost: Nanos,
    /// CPU time of a look for waiting requests.
    pub look_cost: Nanos,
    /// CPU time of a notice of the kernel: taking it, and asking for the next.
    pub notice_cost: Nanos,
    /// The setting `max-wait`: how long requests may wait.
    pub max_wait: MaxWait,
    /// Time that each request takes of a worker outside its handler, as far as known beforehand.
    pub beside: Nanos,
    /// What the levels optimise.
    pub objective: Objective,
    /// Recent measurements, if there are any.
    pub measured: Option<Measured>,
}

/// Measurements of recent requests.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Service times over all classes.
    pub times: ServiceTimes,
    /// Mean number of workers that the requests keep busy.
    pub busy_workers: f64,
    /// Number of workers that park, as the process may use fewer CPUs.
    pub parked: usize,
    /// Service times of each class; `None` if policies may not know classes.
    pub of_class: Option<Box<TimesOfClass>>,
    /// Whether the mix of requests has just shifted. If so, these measurements are of the last
    /// second alone.
    pub has_shifted: bool,
    /// Whether requests are left over: no worker was idle, or much of the work went into unfinished
    /// requests. If so, the finished requests are not representative of those that arrive.
    pub are_left: bool,
}

labels! {
    /// What `auto` and `levels` optimise: by the Gittins index (`auto/gittins.rs`), or by the
    /// requests beyond a percentile (`auto/tail.rs`).
    #[derive(Default)]
    Objective {
        /// p99.9 of the slowdown (latency over service time), and the mean latency. The longer a
        /// request has run, the later it goes.
        #[default]
        Slowdown = "slowdown",
        /// p99.9 of the latency of all requests. First come, first served; short requests first,
        /// the longest 0.05 % last.
        Latency = "latency",
    }
}

/// How long requests may wait before they are shed: the setting `max-wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxWait {
    /// Measured limits, the shorter of which applies only while there is a standing queue.
    Auto,
    /// Requests may wait without limit.
    Off,
    /// This limit, always in force. Above zero.
    For(Nanos),
}

impl Measured {
    /// Requests with these times in their handlers, and `beside` each outside, to be received,
    /// dispatched and answered. `busy_workers` counts both.
    pub fn new(times: ServiceTimes, beside: Nanos, busy_workers: f64) -> Measured {
        Measured {
            times: ServiceTimes { beside, ..times },
            busy_workers,
            parked: 0,
            of_class: None,
            has_shifted: false,
            are_left: false,
        }
    }

    /// The time in which these requests came, in nanoseconds.
    pub(crate) fn span(&self) -> f64 {
        self.times.count() as f64 * self.times.mean().get() as f64 / self.busy_workers
    }

    /// The same measurements with `factor` times as many requests of each service time.
    pub(crate) fn stretched(self, factor: f64) -> Measured {
        self.with_times(|times, _| times.stretched(factor))
    }

    /// The same measurements with the requests of `other` added.
    pub(crate) fn with(self, other: &Measured) -> Measured {
        let of_class = |class: Option<usize>| match (class, &other.of_class) {
            (Some(class), Some(of_class)) => &of_class[class],
            _ => &other.times,
        };
        self.with_times(|times, class| times.with(of_class(class)))
    }

    /// Replaces the service times of all requests, and those of each class.
    fn with_times(mut self, changed: impl Fn(&ServiceTimes, Option<usize>) -> ServiceTimes) -> Measured {
        self.times = changed(&self.times, None);
        for (class, times) in self.of_class.iter_mut().flat_map(|of_class| of_class.iter_mut().enumerate()) {
            *times = changed(times, Some(class));
        }
        self
    }
}

impl Tuning {
    /// A tuning for `workers` workers with this budget; all else has defaults.
    pub fn new(workers: usize, budget: Nanos) -> Tuning {
        Tuning {
            workers,
            groups: 1,
            budget,
            sizes: None,
            classified: false,
            thief_threshold: None,
            time_scale: 1,
            yield_cost: Nanos::new(100),
            look_cost: Nanos::ZERO,
            notice_cost: Nanos::ZERO,
            max_wait: MaxWait::Off,
            beside: Nanos::ZERO,
            objective: Objective::default(),
            measured: None,
        }
    }

    /// What a preemption costs: a yield, and a look that finds something. Such a look takes three
    /// times as long as one that finds nothing.
    pub(crate) fn giving_way_cost(&self) -> Nanos {
        self.yield_cost.plus(self.look_cost.times(3))
    }

    /// Whether workers have the time to pass on each request. The cost is a yield and a look on one
    /// side, and a yield on the other.
    pub(crate) fn has_time_to_pass_on(&self, measured: &Measured) -> bool {
        let cost = self.giving_way_cost().plus(self.yield_cost).times(if self.groups == 1 { 1 } else { AMONG_GROUPS });
        let share = cost.get() as f64 / measured.times.mean().get().max(1) as f64;
        measured.busy_workers < self.working(Some(measured)) as f64 * (1.0 - share)
    }

    /// Number of workers that are not parked, at least one. Without a measurement, all.
    pub(crate) fn working(&self, measured: Option<&Measured>) -> usize {
        self.workers.saturating_sub(measured.map_or(0, |measured| measured.parked)).max(1)
    }

    /// How many notices a worker could take in the time between two of its own, at the measured
    /// load. All workers take turns in receiving notices. [`u32::MAX`] before anything is measured.
    pub(crate) fn notices_between_arrivals(&self) -> u32 {
        let count = |measured: &Measured| {
            let gap = measured.times.mean().get() as f64 * self.workers as f64 / measured.busy_workers;
            // Without arrivals or cost the quotient is infinite, and becomes the largest number.
            (gap / self.notice_cost.get() as f64) as u32
        };
        self.measured.as_ref().map_or(u32::MAX, count)
    }

    /// `time` multiplied by the time scale, for times that are not settings.
    pub fn scaled(&self, time: Nanos) -> Nanos {
        time.times(self.time_scale)
    }

    pub(crate) fn thief_threshold(&self) -> Nanos {
        self.thief_threshold.unwrap_or(self.scaled(THIEF_THRESHOLD))
    }
}

impl FromStr for MaxWait {
    type Err = String;

    /// Reads `auto`, `off`, or a duration of 1 us to 1 h.
    fn from_str(text: &str) -> Result<MaxWait, String> {
        match text {
            "auto" => Ok(MaxWait::Auto),
            "off" => Ok(MaxWait::Off),
            _ => duration_within(text, FOR_MIN..=FOR_MAX).map(MaxWait::For),
        }
    }
}

impl fmt::Display for MaxWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxWait::Auto => f.pad("auto"),
            MaxWait::Off => f.pad("off"),
            MaxWait::For(bound) => bound.fmt(f),
        }
    }
}
