//! Defines a setting: one row of the table makes its field of [`Config`], its flag, its help and
//! its line in the README.

use super::{Config, SETTINGS};
use crate::config::value::{Refusal, Shape};
use crate::fate::labels;

/// The flag that names the configuration file.
pub(crate) const CONFIG: &str = "config";
/// The flag that prints the effective configuration and exits.
pub(crate) const CHECK_CONFIG: &str = "check-config";
/// The flag that asks a running server for its health and exits.
pub(crate) const CHECK_HEALTH: &str = "check-health";
/// The flag that prints the help of all settings.
pub(crate) const HELP_ALL: &str = "help-all";

/// One setting: a row of [`SETTINGS`].
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name in the file, in kebab case. The flag is `--` and this name.
    pub key: &'static str,
    /// The part of the help that lists the setting.
    pub group: Group,
    /// The placeholder for the value in the help.
    pub value_name: &'static str,
    /// The default, as text to be parsed; or how it is computed, in words.
    pub default: &'static str,
    /// Whether the default is computed from the machine or from other settings.
    pub computed: bool,
    /// How the file writes the value.
    pub shape: Shape,
    /// Whether a running server takes a new value when it reads its file again. Other settings need
    /// a restart.
    pub live: bool,
    /// The allowed values, as help and errors state them.
    pub allowed: fn() -> String,
    /// One line that says what the setting means.
    pub help: &'static str,
    /// Further sentences for the setting's `--help`, some of which are computed.
    pub details: fn() -> Vec<String>,
    /// The setting's value in a configuration, written as on the command line.
    pub show: fn(&Config) -> String,
}

labels! {
    /// A part of the help. The name is the part's heading.
    Group {
        /// Settings of addresses, receiving and sending.
        Network = "Network",
        /// Settings that decide which worker serves which request.
        Policy = "Policy",
        /// What the server refuses and sheds.
        Overload = "Overload",
        /// Start, stop, restart, health and log.
        LifeCycle = "Life cycle",
        /// Settings that few servers change.
        Tuning = "Tuning",
        /// Settings for benches only.
        Bench = "Bench",
    }
}

/// A source of texts for settings.
pub(crate) trait SettingSource {
    /// The value of `key`, if there is a text and `parse` accepts it. A refusal is kept as a
    /// problem.
    fn given<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, Refusal>) -> Option<T>;
}

impl Setting {
    /// The name in the environment: `FOREBAY_`, then the key in upper case with `_` for `-`.
    pub fn environment_name(&self) -> String {
        environment_name(self.key)
    }
}

/// Makes `Config` and `SETTINGS` from rows, by group. The key is the field's name, with `-` for
/// `_`. `form` parses and shows the value. A computed default is an expression over the fields of
/// earlier rows. The field's documentation is the flag's help: a line, then a list. Paragraphs
/// after the list are for programmers only. `details` adds to the list.
macro_rules! settings {
    ($([$group:ident] $(
        $(#[doc = $about:literal])+
        $field:ident: $type:ty {
            value_name: $value_name:literal, live: $live:literal, default: $default:expr $(=> $computed:expr)?,
            form: $form:expr $(, details: $made:expr)? $(,)?
        }
    )+)+) => {
        /// All settings of a server. [`Config::from_pairs`] and [`Builder`](crate::server::Builder)
        /// make it and check the bounds stated here. Code that changes a field afterwards must keep
        /// the bounds itself.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Config {
            $($($(#[doc = $about])+ pub $field: $type,)+)+
        }

        mod forms {
            use super::*;
            $($(pub(super) const fn $field() -> Form<$type> { $form })+)+
        }

        /// Every setting, in the order in which help and reports show them.
        pub const SETTINGS: [Setting; [$($(stringify!($field)),+),+].len()] = [$($(Setting {
            key: setting::text(&const { setting::key::<{ stringify!($field).len() }>(stringify!($field)) }),
            group: Group::$group,
            value_name: $value_name,
            default: $default,
            computed: !<[&str]>::is_empty(&[$(stringify!($computed))?]),
            shape: forms::$field().shape,
            live: $live,
            allowed: forms::$field().allowed,
            help: setting::help(&[$($about),+]),
            details: || setting::details(&[$($about),+]).into_iter()$(.chain($made))?.collect(),
            show: |config| (forms::$field().show)(&config.$field),
        },)+)+];

        /// Parses each setting of `layers` by itself. An invalid one becomes a problem and gets its
        /// default, so that the rules between settings are still checked.
        pub(crate) fn parse(layers: &mut impl SettingSource) -> Config {
            $($(
                let parse = forms::$field().parse;
                let $field = layers
                    .given(&stringify!($field).replace('_', "-"), parse)
                    $(.or_else(|| Some($computed)))?
                    .unwrap_or_else(|| parse($default).expect("a test holds that the defaults are valid"));
            )+)+
            Config { $($($field),+),+ }
        }
    };
}

/// The key of a setting: the name of its field, with `-` for `_`.
pub(super) const fn key<const BYTES: usize>(field: &str) -> [u8; BYTES] {
    let (mut key, mut at) = ([b'-'; BYTES], 0);
    while at < BYTES {
        if field.as_bytes()[at] != b'_' {
            key[at] = field.as_bytes()[at];
        }
        at += 1;
    }
    key
}

/// A key's bytes as text.
pub(super) const fn text(key: &'static [u8]) -> &'static str {
    match std::str::from_utf8(key) {
        Ok(key) => key,
        Err(_) => panic!("names of fields are text"),
    }
}

/// The first line of a setting's documentation.
pub(super) const fn help(about: &[&'static str]) -> &'static str {
    about[0].trim_ascii()
}

/// The list in a setting's documentation, one item each. An item begins with a dash. A backslash
/// keeps Markdown from reading a link.
pub(super) fn details(about: &[&str]) -> Vec<String> {
    let list: Vec<&str> = about[1..].iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    list.join(" ").replace('\\', "").split("- ").skip(1).map(|item| item.trim_end().to_owned()).collect()
}

/// The setting named `key`.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The environment variable of the setting `key`.
pub(crate) fn environment_name(key: &str) -> String {
    format!("FOREBAY_{}", key.to_uppercase().replace('-', "_"))
}
