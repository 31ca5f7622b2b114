//! Configuration: flags, environment, file and defaults become a [`Config`] that cannot be wrong.
//!
//! One table, [`SETTINGS`], names every setting. From it come the command line's flags, the names in the environment
//! and in the file, the help, and the README's table. A setting is taken from the first layer that has it: flag,
//! environment (`FOREBAY_` and the key in upper case, `-` as `_`), TOML file, default. What the layers hold is text; it
//! is parsed once, and whatever is wrong is reported at once, with where it was written and what is allowed.
//!
//! ```
//! use forebay::config::Config;
//!
//! let config = Config::from_pairs([("policy", "pools"), ("pools", "front=1,heavy=3")])?;
//! assert_eq!(config.workers, 4);
//! # Ok::<(), forebay::config::Problems>(())
//! ```

mod choice;
mod cpus;
mod environment;
mod file;
mod flags;
mod layers;
mod lookup;
mod parse;
mod problem;
mod resolve;
mod setting;

pub use choice::{Burn, Classify, HandlerName, Io, LogFormat, Wait};
pub use cpus::cpus;
pub use flags::{flags, meta_flags, wants_check};
pub use layers::{Effective, Row, load};
pub use problem::{Claim, Origin, Problem, Problems};
pub use setting::{DefaultValue, SETTINGS, Setting, Shape, markdown_table};

use crate::sched::PolicyName;
use crate::time::Nanos;
use std::net::SocketAddr;

/// The most workers a server starts; far above any machine that the policies were measured or simulated on.
pub const WORKERS_MAX: usize = 1_024;
/// The most pools a server has. A reply names its pool in one byte, and a workload has no more than eight classes.
pub const POOLS_MAX: usize = 8;
/// The most source ports a server turns away: the list is looked through for every datagram.
pub const REJECTED_PORTS_MAX: usize = 64;

/// Everything a server is told. Made by [`load`] or [`Config::from_pairs`], which hold the bounds stated here; code
/// that changes a field afterwards takes that upon itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where requests arrive (UDP); an address of one host, or the wildcard. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where metrics, latency and health are served (HTTP over TCP). Port 0 takes a free one.
    pub admin: SocketAddr,
    /// Which worker serves which request.
    pub policy: PolicyName,
    /// Number of workers, 1 to [`WORKERS_MAX`]; equal to the sum over `pools`.
    pub workers: usize,
    /// The pools in hop order, the first being the ingress; 1 to [`POOLS_MAX`], names unique. Set whatever the policy
    /// is, used by `pools` alone.
    pub pools: Vec<Pool>,
    /// CPU time before a continuation may be taken from its worker, 1 us to 1 s; see [`Config::slice_scaled`].
    pub slice: Nanos,
    /// Workers reserved under `hybrid`, or of the lightest group under `reserve`, 1 to `workers`; `None` = as measured.
    pub reserved: Option<usize>,
    /// Whether a request's class may be read from its header before it has been served.
    pub classify: Classify,
    /// What is run for each request.
    pub handler: HandlerName,
    /// Whether cost is burnt on a CPU or slept.
    pub burn: Burn,
    /// How many times longer than in reality everything lasts, 1 to 1,000,000; see [`Config::scaled`].
    pub time_scale: u64,
    /// What a worker without work does. [`Wait::Park`] whenever `burn` is [`Burn::Sleep`].
    pub wait: Wait,
    /// Datagrams from these ports are not looked at; at most [`REJECTED_PORTS_MAX`], all different, none 0.
    pub reject_source_ports: Vec<u16>,
    /// How datagrams go to and from the kernel. Never [`Io::Portable`] where `listen` is all addresses.
    pub io: Io,
    /// The largest cost a request may ask for, 1 us to 1 h; see [`Config::cost_cap_scaled`].
    pub cost_cap: Nanos,
    /// How long a stopping server goes on serving what it holds, 0 to 1 h. Never scaled.
    pub drain_timeout: Nanos,
    /// How long a stopping server serves everything while it says that it is not ready, before it drains; 0 to 1 h. Never
    /// scaled.
    pub lame_duck: Nanos,
    /// How long no worker of a pool may move before the server counts as unhealthy; 0 (never) to 1 h. Never scaled.
    pub unhealthy_after: Nanos,
    /// Whether each worker stays on one CPU.
    pub pin: bool,
    /// How log lines are written.
    pub log_format: LogFormat,
}

/// A group of workers that serves one weight of requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// A lower-case letter, then lower-case letters, digits and `-`.
    pub name: String,
    /// Workers in it, at least 1.
    pub workers: usize,
}

impl Config {
    /// A configuration from keys of [`SETTINGS`] and values, written as on the command line. What is left out has its
    /// default; of a key that comes twice the last value holds, so overrides can be appended to a base.
    ///
    /// # Errors
    /// Everything that is wrong with `pairs`.
    pub fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Config, Problems> {
        layers::from_pairs(pairs).map(|effective| effective.config)
    }

    /// Every setting in the order of [`SETTINGS`] and its value as text. [`Config::from_pairs`] makes an equal
    /// configuration of it.
    pub fn to_pairs(&self) -> Vec<(&'static str, String)> {
        SETTINGS.iter().map(|setting| (setting.key, resolve::value_text(self, setting.key))).collect()
    }

    /// `time` on the server's scale: multiplied by `time_scale`. For what CONTRACTS calls scaled (slice, checkpoint
    /// step, socket-poll interval, thief threshold, cost cap), and never for timeouts, windows or waiting.
    pub fn scaled(&self, time: Nanos) -> Nanos {
        time.times(self.time_scale)
    }

    /// `slice`, scaled.
    pub fn slice_scaled(&self) -> Nanos {
        self.scaled(self.slice)
    }

    /// `cost_cap`, scaled: what the cost in a request's header is compared with.
    pub fn cost_cap_scaled(&self) -> Nanos {
        self.scaled(self.cost_cap)
    }
}

impl Default for Config {
    /// The defaults of [`SETTINGS`], for the CPUs of this process.
    fn default() -> Config {
        Config::from_pairs([]).expect("a test holds that the defaults are valid, for every number of CPUs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts of which some are values, some nearly, and some nothing like it.
    fn written() -> impl Strategy<Value = String> {
        prop_oneof![
            "[a-z0-9=,.:]{0,24}",
            "[0-9]{1,22}(ns|us|ms|s|h| |y)?",
            "([a-z]{1,2}=[0-9]{1,4},?){1,9}",
            "\\PC{0,12}",
        ]
    }

    proptest! {
        // Is any text for any setting either a configuration that can be written down again, or a problem that names
        // the setting?
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

    // Do the scaled times grow with the scale, and nothing else?
    #[test]
    fn slice_and_cost_cap_are_scaled() {
        let config = Config::from_pairs([("time-scale", "1000"), ("drain-timeout", "2s")]).unwrap();
        assert_eq!(config.slice, Nanos::from_micros(50));
        assert_eq!(config.slice_scaled(), Nanos::from_millis(50));
        assert_eq!(config.cost_cap_scaled(), Nanos::from_secs(1_000));
        assert_eq!(config.drain_timeout, Nanos::from_secs(2));
        assert_eq!(Config::default().slice_scaled(), Config::default().slice);
    }

    // Is the text of a configuration the configuration?
    #[test]
    fn text_and_configuration_are_inverses() {
        let bases: [&[(&str, &str)]; 4] = [
            &[],
            &[("policy", "pools"), ("pools", "front=1,middle=2,heavy=4"), ("pin", "true")],
            &[("burn", "sleep"), ("time-scale", "1000"), ("workers", "14"), ("log-format", "json")],
            &[
                ("slice", "1500us"),
                ("reserved", "1"),
                ("workers", "2"),
                ("drain-timeout", "0s"),
                ("cost-cap", "90s"),
                ("listen", "[::1]:0"),
                ("reject-source-ports", "none"),
            ],
        ];
        for base in bases {
            let config = Config::from_pairs(base.iter().copied()).unwrap();
            let pairs = config.to_pairs();
            let again = Config::from_pairs(pairs.iter().map(|(key, value)| (*key, value.as_str())));
            assert_eq!(again.as_ref(), Ok(&config), "{pairs:?}");
        }
    }
}
