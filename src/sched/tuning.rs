//! What policies are made from: by the server, the simulator, the planner and `loadgen compare`.

use super::estimate::{ServiceTimes, TimesOfClass};
use crate::fate::labels;
use crate::time::{DURATION_FORM, DurationError, Nanos, parse_duration};
use std::fmt;
use std::str::FromStr;

/// How long a worker must have been in one job before thieves look into its socket, unscaled. It is
/// longer than a light request takes with its kernel part, and shorter than anything worth waiting
/// for.
const THIEF_THRESHOLD: Nanos = Nanos::from_micros(20);

/// The range of [`MaxWait::For`].
const FOR_MIN: Nanos = Nanos::from_micros(1);
const FOR_MAX: Nanos = Nanos::from_secs(3_600);

/// Among groups a request that is passed on costs this many times as much: 16 workers wait for one
/// another at the queue. In virtual time 64 workers take fixed costs of 10 us at .7: `global` has a
/// p99.9 slowdown of 2.4, and one level has 2.2. With 2.5 us `global` falls behind.
const AMONG_GROUPS: u64 = 8;

/// What a policy is made from.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// Workers, at least one.
    pub workers: usize,
    /// Groups of so many workers, at least one.
    pub groups: usize,
    /// CPU time that a request may use before it counts as heavy.
    pub budget: Nanos,
    /// Workers of pools or groups, where they were given; their sum is the number of workers.
    pub sizes: Option<Vec<usize>>,
    /// Whether policies that can use a request's class know it.
    pub classified: bool,
    /// How long a worker must have been in one job before others receive from its socket, where it
    /// was given.
    pub thief_threshold: Option<Nanos>,
    /// Factor on every time that is no setting (thief threshold, slices, intervals between looks).
    pub time_scale: u64,
    /// What stepping aside costs.
    pub yield_cost: Nanos,
    /// What a look for waiting requests costs.
    pub look_cost: Nanos,
    /// What the kernel's notice of an arrival costs: to take it, and to ask for the next.
    pub notice_cost: Nanos,
    /// How long requests may wait.
    pub max_wait: MaxWait,
    /// What each request takes of a worker beside its service, as far as that is known beforehand.
    pub beside: Nanos,
    /// What levels are for.
    pub objective: Objective,
    /// What was measured lately, if anything.
    pub measured: Option<Measured>,
}

/// What was measured of recent requests.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Service times of all classes together.
    pub times: ServiceTimes,
    /// Mean number of workers that the requests keep busy.
    pub busy_workers: f64,
    /// Service times of each class by itself, where policies may know it.
    pub of_class: Option<Box<TimesOfClass>>,
    /// Whether the mix of requests has shifted since it was last measured, so that this is of the
    /// last second alone.
    pub has_shifted: bool,
    /// Whether requests are left over: no worker had nothing to do, or much of the work went into
    /// requests that have not ended. Which ones end says little then of which ones come.
    pub are_left: bool,
}

labels! {
    /// What `levels` and `auto` optimise: by the Gittins index (`auto/gittins.rs`), or by what no
    /// percentile counts (`auto/tail.rs`).
    #[derive(Default)]
    #[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
    Objective {
        /// p99.9 of the slowdown, latency over service time, and the mean latency: the longer a
        /// request has taken, the later it goes.
        #[default]
        Slowdown = "slowdown",
        /// p99.9 of the latency of all requests. First come, first served, but what takes little of
        /// the time goes first, and the longest of 2,000 last.
        Latency = "latency",
    }
}

/// How long requests may wait before they are shed: `--max-wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MaxWait {
    /// As measured, and only while a queue stands.
    Auto,
    /// For ever.
    Off,
    /// This long, always. Above zero.
    For(Nanos),
}

impl Measured {
    /// Requests with these times in their handlers, each of which took `beside` of its worker's
    /// time beside that, to be received, dispatched and answered. `busy_workers` counts both.
    pub fn new(times: ServiceTimes, beside: Nanos, busy_workers: f64) -> Measured {
        Measured {
            times: ServiceTimes { beside, ..times },
            busy_workers,
            of_class: None,
            has_shifted: false,
            are_left: false,
        }
    }
}

impl Tuning {
    /// A tuning of `workers` workers with that budget; nothing else is known.
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

    /// What it costs that a job gives way: a yield, and a look that sees something. This takes
    /// three times as long as one in vain.
    pub(crate) fn giving_way_cost(&self) -> Nanos {
        self.yield_cost.plus(self.look_cost.times(3))
    }

    /// Whether workers have the time to pass each request on to another one, who looks for it, and
    /// takes it as after a yield.
    pub(crate) fn has_time_to_pass_on(&self, measured: &Measured) -> bool {
        let cost = self.giving_way_cost().plus(self.yield_cost).times(if self.groups == 1 { 1 } else { AMONG_GROUPS });
        let share = cost.get() as f64 / measured.times.mean().get().max(1) as f64;
        measured.busy_workers < self.workers as f64 * (1.0 - share)
    }

    /// How many notices each of so many workers, who hear of arrivals in turn, could take between
    /// two of them.
    pub(crate) fn notices_between_arrivals(&self, watchers: usize) -> u32 {
        let count = |measured: &Measured| {
            let gap = measured.times.mean().get() as f64 * watchers as f64 / measured.busy_workers;
            // Without any arrivals, or any cost, this is infinite, and the largest number.
            (gap / self.notice_cost.get() as f64) as u32
        };
        self.measured.as_ref().map_or(u32::MAX, count)
    }

    /// `time`, which no setting says, on the scale of this server.
    pub fn scaled(&self, time: Nanos) -> Nanos {
        time.times(self.time_scale)
    }

    pub(crate) fn thief_threshold(&self) -> Nanos {
        self.thief_threshold.unwrap_or(self.scaled(THIEF_THRESHOLD))
    }
}

impl FromStr for MaxWait {
    type Err = String;

    /// `auto`, `off`, or a duration of 1 us to 1 h.
    fn from_str(text: &str) -> Result<MaxWait, String> {
        match text {
            "auto" => Ok(MaxWait::Auto),
            "off" => Ok(MaxWait::Off),
            _ => match parse_duration(text) {
                Ok(bound) if (FOR_MIN..=FOR_MAX).contains(&bound) => Ok(MaxWait::For(bound)),
                Ok(_) | Err(DurationError::TooLong(_)) => Err("out of range".to_owned()),
                Err(DurationError::Form(_)) => {
                    Err(format!("neither auto nor off nor a duration; write {DURATION_FORM}"))
                }
            },
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
