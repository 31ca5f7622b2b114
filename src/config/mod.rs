//! Configuration: turns flags, environment, file and defaults into a checked [`Config`].
//!
//! One table, `table/mod.rs`, has a row for every setting. The fields of [`Config`], the parsers,
//! the flags, the names in environment and file, the help and the README's table ([`SETTINGS`])
//! come from it. `rules.rs` has the rules between settings. The first layer that has a setting
//! decides: flag, environment, TOML file, default. In the environment, `FOREBAY_` comes before the
//! key in upper case, with `_` for `-`. All problems are reported at once, each with where it was
//! written and what is allowed.
//!
//! ```
//! use forebay::config::Config;
//!
//! let config = Config::from_pairs([("policy", "pools"), ("pools", "front=1,heavy=3")])?;
//! assert_eq!(config.workers, 4);
//! # Ok::<(), forebay::config::Problems>(())
//! ```

mod addresses;
pub(crate) mod caches;
mod effective;
mod layers;
mod problem;
mod reload;
mod rules;
#[cfg(feature = "cli")]
mod sources;
mod table;
mod value;

pub use crate::emulation::overheads::{Overheads, OverheadsError};
pub use crate::net::{Io, Network, SourcePrefix};
pub use crate::sched::{MaxWait, Notices, Objective, PolicyName, UnknownPolicy, Wait};
pub(crate) use effective::{Effective, OwnSettings};
pub use problem::{Claim, Origin, Problem, Problems};
pub(crate) use reload::{Reloaded, reload};
#[cfg(feature = "cli")]
pub(crate) use sources::{CHECK_CONFIG, CHECK_HEALTH, HELP_ALL, OwnFlags, Scope, as_settings, load, with_flags};
pub(crate) use table::FREE_ADMIN;
pub use table::{Config, Group, SETTINGS, Setting};
pub(crate) use value::list_text as listen_text;
pub use value::{
    Burn, Classify, Gate, HandlerName, LISTEN_MAX, LogFormat, LogLevel, POOLS_MAX, Pool, REJECTED_PORTS_MAX,
    SOCKETS_MAX, Shape, ShedAnswers, TRUSTED_NETWORKS_MAX, WORKERS_MAX,
};

use crate::time::Nanos;

impl Config {
    /// A configuration from keys of [`SETTINGS`] and values, written as on the command line. A
    /// missing key has its default. The last value of a repeated key counts, so overrides can be
    /// appended.
    ///
    /// # Errors
    /// All problems of `pairs`.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Config, Problems> {
        effective::from_pairs(pairs).map(|effective| effective.config)
    }

    /// Every setting and its value as text, in the order of [`SETTINGS`]. [`Config::from_pairs`]
    /// reads them back.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        SETTINGS.iter().map(|setting| (setting.key, (setting.show)(self))).collect()
    }

    /// `time` multiplied by `time_scale`. Used for the slice, the checkpoint step, the socket-poll
    /// interval, the thief threshold, the cost cap and the maximum wait. Timeouts and windows are
    /// never scaled.
    pub fn scaled(&self, time: Nanos) -> Nanos {
        time.times(self.time_scale)
    }

    /// What each step costs an emulated core, multiplied by `time_scale`.
    pub fn overheads_scaled(&self) -> Overheads {
        self.overheads.times(self.time_scale)
    }

    /// `max_wait`, multiplied by `time_scale` if it is a duration. Measured times are already
    /// scaled.
    pub fn max_wait_scaled(&self) -> MaxWait {
        match self.max_wait {
            MaxWait::For(bound) => MaxWait::For(self.scaled(bound)),
            unscaled => unscaled,
        }
    }
}

impl Default for Config {
    /// Every setting at its default, for the CPUs of this process.
    fn default() -> Config {
        Config::from_pairs([]).expect("a test holds that the defaults are valid, for every number of CPUs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::cpus::cpus;
    use crate::time::Nanos;
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    use proptest::prelude::*;

    /// Random texts: some are valid values, some nearly valid, some neither.
    fn written() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z0-9=,.:]{0,24}",
            "[0-9]{1,22}(ns|us|ms|s|h| |y)?",
            "([a-z]{1,2}=[0-9]{1,4},?){1,9}",
            "\\PC{0,12}",
        ]
    }

    proptest! {
        // Is any text for any setting either a value that can be shown and read back, or a problem
        // that names the setting?
        #[test]
        fn any_text_is_a_value_or_a_problem(
            setting in prop::sample::select(SETTINGS.to_vec()),
            text in written(),
        ) {
            match Config::from_pairs([(setting.key, text.as_str())]) {
                Ok(config) => {
                    let pairs = config.to_pairs();
                    let again = Config::from_pairs(pairs.iter().map(|(key, value)| (*key, value.as_str())));
                    prop_assert_eq!(again, Ok(config));
                }
                Err(problems) => {
                    prop_assert!(problems.iter().all(|problem| problem.claims[0].key == setting.key), "{}", problems);
                    prop_assert!(problems.to_string().contains("allowed: "), "{}", problems);
                }
            }
        }
    }

    // Does `time_scale` multiply the times that are scaled, and no others?
    #[test]
    fn slice_and_cost_cap_are_scaled() {
        let config =
            Config::from_pairs([("time-scale", "1000"), ("drain-timeout", "2s"), ("max-wait", "5ms")]).unwrap();
        assert_eq!(config.max_wait_scaled(), MaxWait::For(Nanos::from_secs(5)));
        assert_eq!(Config::default().max_wait_scaled(), MaxWait::Auto);
        assert_eq!(config.slice, Nanos::from_micros(50));
        assert_eq!(config.scaled(config.slice), Nanos::from_millis(50));
        assert_eq!(config.scaled(config.cost_cap), Nanos::from_secs(100));
        assert_eq!(config.drain_timeout, Nanos::from_secs(2));
        let one = Config::default();
        assert_eq!(one.scaled(one.slice), one.slice);
    }

    // Does the parser accept both bounds that the table states, and refuse what lies beyond?
    #[test]
    fn allowed_ranges_are_the_parsed_ones() {
        let mut ranges = 0;
        for Setting { key, allowed, .. } in SETTINGS {
            let allowed = allowed();
            let Some((low, high)) = allowed.split_once(" to ") else { continue };
            let beyond = match (low.parse::<u64>(), high.parse::<u64>(), low.parse::<Nanos>(), high.parse::<Nanos>()) {
                (Ok(low), Ok(high), ..) => [low.checked_sub(1), Some(high + 1)].map(|text| text.map(|n| n.to_string())),
                (.., Ok(low), Ok(high)) => {
                    [low.get().checked_sub(1), Some(high.get() + 1)].map(|text| text.map(|n| format!("{n}ns")))
                }
                _ => continue,
            };
            ranges += 1;
            for taken in [low, high] {
                assert!(Config::from_pairs([(key, taken)]).is_ok(), "{key} {taken}");
            }
            for refused in beyond.iter().flatten() {
                assert!(Config::from_pairs([(key, refused.as_str())]).is_err(), "{key} {refused}");
            }
        }
        assert!(ranges >= 5, "only {ranges} settings state a range");
    }

    // Does the affinity mask limit the count, rather than the machine? A thread narrows its own
    // mask to one CPU.
    #[test]
    fn the_affinity_mask_limits_the_count() {
        let narrowed = std::thread::spawn(|| {
            let calling_thread = Pid::from_raw(0);
            let mask = sched_getaffinity(calling_thread).unwrap();
            let first = (0..CpuSet::count()).find(|&cpu| mask.is_set(cpu).unwrap()).unwrap();
            let mut one = CpuSet::new();
            one.set(first).unwrap();
            sched_setaffinity(calling_thread, &one).unwrap();
            cpus()
        });
        assert_eq!(narrowed.join().unwrap(), 1);
    }
}
