//! The table of settings, and what is generated from it.

use crate::sched::PolicyName;
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// One setting: a row of [`SETTINGS`].
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its name in the file, and with `--` in front as a flag. Kebab case.
    pub key: &'static str,
    /// What stands for its value in the help.
    pub value_name: &'static str,
    /// Its value when no layer has one.
    pub default: DefaultValue,
    /// How its value is written in the file.
    pub shape: Shape,
    /// The values it may have, as help and errors put it.
    pub allowed: Words,
    /// What it does, in a sentence or two.
    pub help: Words,
}

/// A text of the table.
#[derive(Clone, Copy, Debug)]
pub enum Words {
    /// This one.
    Fixed(&'static str),
    /// One that follows from another table.
    Made(fn() -> String),
}

impl Words {
    /// The text.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            Words::Fixed(text) => text.into(),
            Words::Made(make) => make().into(),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

/// The value of a setting that no layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    /// This text, parsed like any other.
    Text(&'static str),
    /// Computed from the machine or from other settings, in the way described.
    Computed(&'static str),
}

/// How a value is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// In quotes.
    Text,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
}

impl Setting {
    /// Its name in the environment: `FOREBAY_` and the key in upper case with `_` for `-`.
    pub fn environment_name(&self) -> String {
        environment_name(self.key)
    }
}

impl DefaultValue {
    /// The value, or how it is computed.
    pub const fn text(self) -> &'static str {
        match self {
            DefaultValue::Text(text) | DefaultValue::Computed(text) => text,
        }
    }
}

/// Every setting, in the order in which help and reports show them.
pub const SETTINGS: [Setting; 20] = [
    Setting {
        key: "listen",
        value_name: "ADDRESS",
        default: DefaultValue::Text("127.0.0.1:9000"),
        shape: Shape::Text,
        allowed: Words::Fixed(
            "an IP address, neither multicast nor broadcast, and a port, like 0.0.0.0:9000 or [::]:9000; port 0 \
                  takes a free one",
        ),
        help: Words::Fixed("Where requests arrive, over UDP."),
    },
    Setting {
        key: "admin",
        value_name: "ADDRESS",
        default: DefaultValue::Text("127.0.0.1:9001"),
        shape: Shape::Text,
        allowed: Words::Fixed("an IP address and a port, like 127.0.0.1:9001; port 0 takes a free one"),
        help: Words::Fixed("Where metrics, latency and health are served, over HTTP. Keep it private."),
    },
    Setting {
        key: "policy",
        value_name: "NAME",
        default: DefaultValue::Text("steal"),
        shape: Shape::Text,
        allowed: Words::Made(|| {
            let names: Vec<&str> = PolicyName::ALL.iter().map(|policy| policy.name()).collect();
            names.join(", ")
        }),
        help: Words::Made(|| {
            let line = |policy: &PolicyName| format!(" {policy}: {}.", policy.entry().help);
            let lines: String = PolicyName::ALL.iter().map(line).collect();
            format!("Which worker serves which request.{lines}")
        }),
    },
    Setting {
        key: "workers",
        value_name: "COUNT",
        default: DefaultValue::Computed("the CPUs this process may use"),
        shape: Shape::Count,
        allowed: Words::Fixed("1 to 1024"),
        help: Words::Fixed(
            "Worker threads. By default as many as the affinity mask and the cgroup's CPU quota allow; with pools \
               given, their sum.",
        ),
    },
    Setting {
        key: "pools",
        value_name: "NAME=COUNT,...",
        default: DefaultValue::Computed("front = a fifth of the workers, rounded up; heavy = the rest"),
        shape: Shape::Text,
        allowed: Words::Fixed(
            "1 to 8 pools of at least 1 worker, like front=3,heavy=11; names of a-z, 0-9 and -, all different",
        ),
        help: Words::Fixed(
            "The pools of policy pools: first the one where requests start, then in the order in which they hop. \
               Their sum is the number of workers.",
        ),
    },
    Setting {
        key: "slice",
        value_name: "DURATION",
        default: DefaultValue::Text("50us"),
        shape: Shape::Text,
        allowed: Words::Fixed("1us to 1s"),
        help: Words::Fixed("CPU time that a request may use before the rest of it may move to another worker."),
    },
    Setting {
        key: "reserved",
        value_name: "WORKERS",
        default: DefaultValue::Text("auto"),
        shape: Shape::Text,
        allowed: Words::Fixed("auto, or 1 to the number of workers"),
        help: Words::Fixed(
            "Workers reserved for light requests, under hybrid (heavy requests there give way soonest) and reserve \
               (they serve the class of lowest cost). auto: by the demand measured every second.",
        ),
    },
    Setting {
        key: "classify",
        value_name: "HOW",
        default: DefaultValue::Text("none"),
        shape: Shape::Text,
        allowed: Words::Fixed("none, header"),
        help: Words::Fixed(
            "Whether the class in a request's header may choose its pool. none: nothing looks at it until the \
               request has been served.",
        ),
    },
    Setting {
        key: "handler",
        value_name: "NAME",
        default: DefaultValue::Text("spin"),
        shape: Shape::Text,
        allowed: Words::Fixed("echo, spin, fork, digest"),
        help: Words::Fixed(
            "What is run for each request. echo: send it back. spin: burn the CPU time that it asks for. fork: the \
               same, in parts of at least a slice, on several workers at once. digest: chain hashes over its payload.",
        ),
    },
    Setting {
        key: "burn",
        value_name: "HOW",
        default: DefaultValue::Text("cpu"),
        shape: Shape::Text,
        allowed: Words::Fixed("cpu, sleep"),
        help: Words::Fixed(
            "How CPU time is spent. sleep emulates one core per worker on a host that has fewer; it forces wait \
               park and excludes handler digest.",
        ),
    },
    Setting {
        key: "time-scale",
        value_name: "FACTOR",
        default: DefaultValue::Text("1"),
        shape: Shape::Count,
        allowed: Words::Fixed("1 to 1000000"),
        help: Words::Fixed(
            "Multiplies slice and cost cap (never a timeout), for emulated cores: at 1000, a microsecond lasts a \
               millisecond.",
        ),
    },
    Setting {
        key: "wait",
        value_name: "HOW",
        default: DefaultValue::Text("adaptive"),
        shape: Shape::Text,
        allowed: Words::Fixed("adaptive, spin, park"),
        help: Words::Fixed(
            "What a worker without work does. adaptive: look again for a while, then sleep. spin: never sleep. \
               park: sleep at once. With burn sleep it is park.",
        ),
    },
    Setting {
        key: "io",
        value_name: "HOW",
        default: DefaultValue::Text("batches"),
        shape: Shape::Text,
        allowed: Words::Fixed("batches, trains, portable"),
        help: Words::Fixed(
            "How datagrams come from the kernel. batches: many in one call. trains: what a peer sends in a burst comes \
               as one, which saves a fifth of the CPU time where peers do and costs a twentieth where they do not. \
               portable: one by one, for sandboxes that know no other call; not on 0.0.0.0 and [::], and without the \
               time that requests waited in the socket.",
        ),
    },
    Setting {
        key: "reject-source-ports",
        value_name: "PORT,...",
        default: DefaultValue::Text("7,13,17,19,1900,11211"),
        shape: Shape::Text,
        allowed: Words::Fixed("none, or up to 64 different ports of 1 to 65535, like 7,19"),
        help: Words::Fixed(
            "Datagrams from these ports are dropped as malformed: the services behind them (echo, chargen, SSDP, \
               memcached) answer answers. Not 53 and 123, from which DNS and NTP clients ask.",
        ),
    },
    Setting {
        key: "cost-cap",
        value_name: "DURATION",
        default: DefaultValue::Text("1s"),
        shape: Shape::Text,
        allowed: Words::Fixed("1us to 1h"),
        help: Words::Fixed("A request that asks for more CPU time than this is refused."),
    },
    Setting {
        key: "drain-timeout",
        value_name: "DURATION",
        default: DefaultValue::Text("5s"),
        shape: Shape::Text,
        allowed: Words::Fixed("0s to 1h"),
        help: Words::Fixed("How long a server that was told to stop goes on serving what it holds."),
    },
    Setting {
        key: "lame-duck",
        value_name: "DURATION",
        default: DefaultValue::Text("0s"),
        shape: Shape::Text,
        allowed: Words::Fixed("0s to 1h"),
        help: Words::Fixed(
            "How long a server that was told to stop still serves everything while /readyz says 503, so that balancers \
               look elsewhere first. Then it drains.",
        ),
    },
    Setting {
        key: "unhealthy-after",
        value_name: "DURATION",
        default: DefaultValue::Text("30s"),
        shape: Shape::Text,
        allowed: Words::Fixed("0s to 1h"),
        help: Words::Fixed(
            "/healthz says 503 when no worker of a pool has moved for this long (and at least 1s, from which on /readyz \
               does): its handlers are stuck. 0s: never.",
        ),
    },
    Setting {
        key: "pin",
        value_name: "BOOL",
        default: DefaultValue::Text("false"),
        shape: Shape::Switch,
        allowed: Words::Fixed("true, false"),
        help: Words::Fixed("Keeps each worker on one CPU."),
    },
    Setting {
        key: "log-format",
        value_name: "FORMAT",
        default: DefaultValue::Text("text"),
        shape: Shape::Text,
        allowed: Words::Fixed("text, json"),
        help: Words::Fixed("How log lines are written to standard error. RUST_LOG chooses which (default: info)."),
    },
];

/// The settings as a Markdown table, for the README.
pub fn markdown_table() -> String {
    let mut table = String::from("| flag | environment | default | allowed | meaning |\n|---|---|---|---|---|\n");
    for setting in &SETTINGS {
        let Setting { key, allowed, help, .. } = setting;
        let environment = setting.environment_name();
        let default = match setting.default {
            DefaultValue::Text(text) => format!("`{text}`"),
            DefaultValue::Computed(how) => how.to_owned(),
        };
        writeln!(table, "| `--{key}` | `{environment}` | {default} | {allowed} | {help} |")
            .expect("a String takes whatever is written");
    }
    table
}

/// The row of `key`.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The name in the environment of the flag `--key`.
pub(super) fn environment_name(key: &str) -> String {
    format!("FOREBAY_{}", key.to_uppercase().replace('-', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::choice::Choice;
    use crate::config::{Burn, Classify, Config, HandlerName, Io, LogFormat, Wait};

    fn names<T: Choice>() -> String {
        T::CHOICES.iter().map(|choice| choice.text()).collect::<Vec<_>>().join(", ")
    }

    // Does the table list exactly the names that the parser takes?
    #[test]
    fn allowed_names_are_the_parsed_ones() {
        for (key, names) in [
            ("policy", names::<PolicyName>()),
            ("classify", names::<Classify>()),
            ("handler", names::<HandlerName>()),
            ("burn", names::<Burn>()),
            ("wait", names::<Wait>()),
            ("io", names::<Io>()),
            ("log-format", names::<LogFormat>()),
        ] {
            assert_eq!(find(key).unwrap().allowed.text(), names, "{key}");
        }
    }

    // Are the bounds that the table states the parser's: both ends taken, what lies beyond refused?
    #[test]
    fn allowed_ranges_are_the_parsed_ones() {
        for (key, below, above) in [
            ("workers", "0", "1025"),
            ("time-scale", "0", "1000001"),
            ("slice", "999ns", "1001ms"),
            ("cost-cap", "999ns", "3601s"),
            ("drain-timeout", "-1s", "3601s"),
            ("lame-duck", "-1s", "3601s"),
            ("unhealthy-after", "-1s", "3601s"),
        ] {
            let allowed = find(key).unwrap().allowed.text();
            let (low, high) = allowed.split_once(" to ").unwrap();
            for taken in [low, high] {
                assert!(Config::from_pairs([(key, taken)]).is_ok(), "{key} {taken}");
            }
            for refused in [below, above] {
                assert!(Config::from_pairs([(key, refused)]).is_err(), "{key} {refused}");
            }
        }
    }

    // Is every setting a row of the README's table, and no cell broken by a bar?
    #[test]
    fn the_table_has_a_row_for_each_setting() {
        let table = markdown_table();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows.len(), SETTINGS.len());
        for (row, setting) in rows.iter().zip(&SETTINGS) {
            assert!(row.starts_with(&format!("| `--{}` | `{}` |", setting.key, setting.environment_name())), "{row}");
            assert_eq!(row.matches('|').count(), 6, "{row}");
        }
        assert!(table.contains("| `--time-scale` | `FOREBAY_TIME_SCALE` | `1` |"));
    }
}
