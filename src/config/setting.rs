//! The definition of a setting: one row of the table, from its field of [`Config`] to its line in the README.

use super::{Config, SETTINGS};
use std::borrow::Cow;
use std::fmt;

/// The flag that names the file.
pub(super) const CONFIG: &str = "config";
/// The flag that prints the configuration instead of using it.
pub(super) const CHECK_CONFIG: &str = "check-config";

/// One setting: a row of [`SETTINGS`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Setting {
    /// The name in the file, and with `--` in front as a flag. Kebab case.
    pub key: &'static str,
    /// The part of the help in which it stands.
    pub group: Group,
    /// The placeholder for the value in the help.
    pub value_name: &'static str,
    /// The value when no layer has one.
    pub default: DefaultValue,
    /// The notation of the value in the file.
    pub shape: Shape,
    /// When a new value takes effect.
    pub change: Change,
    /// The allowed values, as help and errors state them.
    pub allowed: Words,
    /// The meaning of the setting, in a sentence or two.
    pub help: Words,
    /// The value in a configuration, written as on the command line.
    pub show: fn(&Config) -> String,
}

/// A part of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Group {
    /// Addresses, and what is received and sent.
    Network,
    /// Who serves what.
    Policy,
    /// What is refused and shed.
    Overload,
    /// Stop, restart, health and log.
    LifeCycle,
    /// What serves benches alone.
    Bench,
}

/// A text of the table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Words {
    /// A fixed text.
    Fixed(&'static str),
    /// A text made from another table.
    Made(fn() -> String),
    /// A sentence or two, which a table has room for, and the sentences that follow elsewhere.
    Detailed(&'static str, fn() -> Vec<String>),
}

/// The value of a setting that no layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DefaultValue {
    /// A text, parsed like any other.
    Text(&'static str),
    /// Computed from the machine or from other settings, in the way described.
    Computed(&'static str),
}

/// When a new value of a setting takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// At once, when the running server reads its file again.
    Live,
    /// When the server is started again.
    Restart,
}

/// The notation of a value in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// In quotes.
    Text,
    /// A whole number.
    Count,
    /// `true` or `false`.
    Switch,
}

impl Setting {
    /// The name in the environment: `FOREBAY_` and the key in upper case with `_` for `-`.
    pub fn environment_name(&self) -> String {
        environment_name(self.key)
    }
}

impl Group {
    /// The heading in the help.
    pub const fn heading(self) -> &'static str {
        match self {
            Group::Network => "Network",
            Group::Policy => "Policy",
            Group::Overload => "Overload",
            Group::LifeCycle => "Life cycle",
            Group::Bench => "Bench",
        }
    }
}

impl Words {
    /// The whole text.
    pub fn text(self) -> Cow<'static, str> {
        let details = self.details();
        if details.is_empty() { self.brief() } else { format!("{} {}", self.brief(), details.join(" ")).into() }
    }

    /// The text for a cell of a table.
    fn brief(self) -> Cow<'static, str> {
        match self {
            Words::Fixed(text) | Words::Detailed(text, _) => text.into(),
            Words::Made(make) => make().into(),
        }
    }

    /// The sentences beyond [`Words::brief`].
    fn details(self) -> Vec<String> {
        match self {
            Words::Fixed(_) | Words::Made(_) => Vec::new(),
            Words::Detailed(_, make) => make(),
        }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl DefaultValue {
    /// The default value, or how it is computed.
    pub const fn text(self) -> &'static str {
        match self {
            DefaultValue::Text(text) | DefaultValue::Computed(text) => text,
        }
    }
}

/// Makes `Config` and `SETTINGS` from a list of settings. `parse` makes a field's value from a text, `show` the text
/// from the value. A computed default is an expression in which the fields of the rows above have their values.
macro_rules! settings {
    ($(
        $(#[$about:meta])*
        $field:ident: $type:ty {
            key: $key:literal, group: $group:ident, value_name: $value_name:literal, shape: $shape:ident,
            change: $change:ident,
            default: $default:ident($default_text:expr $(, $computed:expr)?),
            allowed: $allowed:ident($allowed_text:expr),
            help: $help:ident($($help_text:expr),+),
            parse: $parse:expr, show: $show:expr,
        }
    )+) => {
        /// All settings of a server. Made by [`Config::from_pairs`] or [`Builder`](crate::server::Builder), which ensure
        /// the bounds stated here; code that changes a field afterwards is responsible for them.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[$about])* pub $field: $type,)+
        }

        /// Every setting, in the order in which help and reports show them.
        pub const SETTINGS: [Setting; [$($key),+].len()] = [$(Setting {
            key: $key,
            group: Group::$group,
            value_name: $value_name,
            default: DefaultValue::$default($default_text),
            shape: Shape::$shape,
            change: Change::$change,
            allowed: Words::$allowed($allowed_text),
            help: Words::$help($($help_text),+),
            show: |config| {
                let show: fn(&$type) -> String = $show;
                show(&config.$field)
            },
        },)+];

        /// Each setting from `layers`, parsed by itself. An invalid one becomes a problem, and has its default here, so
        /// that the rules between settings are still checked.
        pub(super) fn parse(layers: &mut Layers) -> Config {
            $(
                let parse: fn(&str) -> Result<$type, Refusal> = $parse;
                let $field = layers
                    .given($key, parse)
                    $(.or_else(|| Some($computed)))?
                    .unwrap_or_else(|| parse($default_text).expect("a test holds that the defaults are valid"));
            )+
            Config { $($field),+ }
        }
    };
}

/// The settings as a Markdown table, and a list of what the help says beyond it, for the README beside this file.
#[cfg(any(test, feature = "cli"))]
pub fn markdown_table() -> String {
    use std::fmt::Write as _;
    const INFALLIBLE: &str = "a String takes whatever is written";

    let mut table =
        String::from("| flag | environment | default | changes | allowed | meaning |\n|---|---|---|---|---|---|\n");
    let mut list = String::new();
    for setting in &SETTINGS {
        let Setting { key, allowed, help, change, .. } = setting;
        let environment = setting.environment_name();
        let change = match change {
            Change::Live => "live",
            Change::Restart => "at start",
        };
        let default = match setting.default {
            DefaultValue::Text(text) => format!("`{text}`"),
            DefaultValue::Computed(how) => how.to_owned(),
        };
        let help_brief = help.brief();
        writeln!(table, "| `--{key}` | `{environment}` | {default} | {change} | {allowed} | {help_brief} |")
            .expect(INFALLIBLE);
        let details = help.details();
        if !details.is_empty() {
            writeln!(list, "- `--{key}`\n  - {}", details.join("\n  - ")).expect(INFALLIBLE);
        }
    }
    format!("{table}\n{list}")
}

/// The row of `key`.
pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The name of `key` in the environment.
pub(super) fn environment_name(key: &str) -> String {
    format!("FOREBAY_{}", key.to_uppercase().replace('-', "_"))
}
