//! The definition of a setting: one row of the table, from its field of [`Config`] to its line in
//! the README.

use super::{Config, SETTINGS};
use crate::config::value::{Refusal, Shape};
use crate::fate::labels;

/// The flag that names the file.
pub(crate) const CONFIG: &str = "config";
/// The flag that prints the configuration instead of using it.
pub(crate) const CHECK_CONFIG: &str = "check-config";
/// The flag that asks a running server whether it is well.
pub(crate) const CHECK_HEALTH: &str = "check-health";
/// The flag that shows the help of all settings.
pub(crate) const HELP_ALL: &str = "help-all";

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
    /// The value when no layer has one, parsed like any other; or in words how it is computed.
    pub default: &'static str,
    /// Whether the default is computed, from the machine or from other settings.
    pub computed: bool,
    /// The notation of the value in the file.
    pub shape: Shape,
    /// Whether a new value takes effect when the running server reads its file again; else when it
    /// is started again.
    pub live: bool,
    /// The allowed values, as help and errors state them.
    pub allowed: fn() -> String,
    /// The meaning of the setting, in one line.
    pub help: &'static str,
    /// The sentences that `--help` adds.
    pub details: fn() -> Vec<String>,
    /// The value in a configuration, written as on the command line.
    pub show: fn(&Config) -> String,
}

labels! {
    /// A part of the help. The name is its heading.
    Group {
        /// Addresses, and what is received and sent.
        Network = "Network",
        /// Who serves what.
        Policy = "Policy",
        /// What is refused and shed.
        Overload = "Overload",
        /// Stop, restart, health and log.
        LifeCycle = "Life cycle",
        /// What few servers change.
        Tuning = "Tuning",
        /// What serves benches alone.
        Bench = "Bench",
    }
}

/// The texts of settings that some layer has.
pub(crate) trait Given {
    /// The value of `key`, if its text is there and `parse` takes it. A refusal is kept.
    fn given<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, Refusal>) -> Option<T>;
}

impl Setting {
    /// The name in the environment: `FOREBAY_` and the key in upper case with `_` for `-`.
    pub fn environment_name(&self) -> String {
        environment_name(self.key)
    }
}

/// Makes `Config` and `SETTINGS` from settings by group. The name of a field is the key, with `_`
/// for `-`. `form` parses and shows the value. A computed default is an expression in which the
/// fields of the rows above have their values. The documentation of a field is the help of its
/// flag: a line, then a list. What follows the list is for programs alone. `details` adds to the
/// list.
macro_rules! settings {
    ($([$group:ident] $(
        $(#[doc = $about:literal])+
        $field:ident: $type:ty {
            value_name: $value_name:literal, live: $live:literal, default: $default:expr $(=> $computed:expr)?,
            form: $form:expr $(, details: $made:expr)? $(,)?
        }
    )+)+) => {
        /// All settings of a server. Made by [`Config::from_pairs`] or
        /// [`Builder`](crate::server::Builder), which ensure the bounds stated here; code that
        /// changes a field afterwards is responsible for them.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
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

        /// Each setting from `layers`, parsed by itself. An invalid one becomes a problem, and has
        /// its default here, so that the rules between settings are still checked.
        pub(crate) fn parse(layers: &mut impl Given) -> Config {
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

/// The bytes of a key as text.
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

/// The list in a setting's documentation. An item begins with a dash; a backslash keeps Markdown
/// from seeing a link.
pub(super) fn details(about: &[&str]) -> Vec<String> {
    let list: Vec<&str> = about[1..].iter().map(|line| line.trim()).take_while(|line| !line.is_empty()).collect();
    list.join(" ").replace('\\', "").split("- ").skip(1).map(|item| item.trim_end().to_owned()).collect()
}

/// The row of `key`.
pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// The name of `key` in the environment.
pub(crate) fn environment_name(key: &str) -> String {
    format!("FOREBAY_{}", key.to_uppercase().replace('-', "_"))
}
