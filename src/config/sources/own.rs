//! The settings that a program adds to those of a server: the flags of a `clap` struct, also in the
//! environment and in the table `[service]` of the file.

use crate::config::effective::{Own, OwnRow};
use crate::config::layers::Layers;
use crate::config::problem::{Origin, Problem};
use crate::config::table::environment_name;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use toml::de::DeValue;

/// The command line of a program, with its own flags.
#[derive(Clone, Debug)]
pub(crate) struct OwnFlags {
    settings: Vec<Arg>,
    command: Command,
    args: Vec<OsString>,
}

/// Turns the flags of `command` with a long name and a value into settings: names their variables
/// in the help, and lets a switch take `true` and `false`.
pub(crate) fn as_settings(command: Command) -> Command {
    command.mut_args(|arg| {
        let arg = match arg.get_action() {
            ArgAction::SetTrue => {
                let switch = arg.action(ArgAction::Set).num_args(0..=1).require_equals(true).value_name("BOOL");
                switch.default_missing_value("true").default_value("false").value_parser(value_parser!(bool))
            }
            _ => arg,
        };
        // Leaked once per process, because clap keeps names while it runs.
        let variable = key(&arg).map(|key| &*environment_name(key).leak());
        if let Some(variable) = variable { arg.env(variable) } else { arg }
    })
}

/// The key of the setting that `arg` is; `None` if it is only a flag.
fn key(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|_| arg.get_action().takes_values())
}

impl OwnFlags {
    /// The settings among the arguments of `own`. `command` has them and all other flags; `args`
    /// are the command line.
    pub(crate) fn new(own: &Command, command: Command, args: Vec<OsString>) -> OwnFlags {
        OwnFlags { settings: own.get_arguments().filter(|arg| key(arg).is_some()).cloned().collect(), command, args }
    }

    /// The keys of the settings, each with its flag.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &Arg)> {
        self.settings.iter().filter_map(|arg| Some((key(arg)?, arg)))
    }

    /// The command line with the own settings as text, so that problems of all layers are reported
    /// together.
    pub(crate) fn texts(&self) -> Result<ArgMatches, clap::Error> {
        let is_own = |arg: &Arg| self.settings.iter().any(|own| own.get_id() == arg.get_id());
        let text = |arg: Arg| if is_own(&arg) { arg.required(false).value_parser(value_parser!(String)) } else { arg };
        self.command.clone().mut_args(text).ignore_errors(true).try_get_matches_from(&self.args)
    }

    /// Merges the layers: `matches` from [`OwnFlags::texts`], then those that `layers` have.
    pub(super) fn resolve(&self, matches: &ArgMatches, layers: &mut Layers) -> Own {
        let mut args = self.args[..1].to_vec();
        let (mut origins, problems) = (BTreeMap::new(), layers.problems.len());
        for (key, arg) in self.keys() {
            let is_flag = matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            let (texts, origin) = match layers.own.remove(key) {
                _ if is_flag => (texts(matches, arg), Origin::Flag),
                Some(given) => given,
                None => continue,
            };
            for text in texts {
                let written = OsString::from(format!("--{key}={text}"));
                if let Some(message) = self.refusal(&written) {
                    let text = if arg.is_hide_env_values_set() { OwnRow::SECRET.to_owned() } else { text };
                    layers.problems.push(Problem::of(key, text, origin.clone(), message));
                }
                if !is_flag {
                    args.push(written);
                }
            }
            origins.insert(key, origin);
        }
        args.extend_from_slice(&self.args[1..]);
        match self.command.clone().try_get_matches_from(args) {
            Ok(matches) => {
                let row = |(key, arg): (&str, &Arg)| OwnRow {
                    key: key.to_owned(),
                    values: texts(&matches, arg),
                    origin: origins.get(key).cloned().unwrap_or(Origin::Default),
                    is_secret: arg.is_hide_env_values_set(),
                };
                Own { rows: self.keys().map(row).collect(), matches }
            }
            Err(error) if layers.problems.len() == problems => {
                let text = error.to_string();
                let said = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                let message = said.lines().map(str::trim).collect::<Vec<_>>().join(" ");
                layers.problems.push(Problem { claims: Vec::new(), message });
                Own::default()
            }
            Err(_) => Own::default(),
        }
    }

    /// Why the argument `written` of the command line has a wrong value, and what is allowed.
    fn refusal(&self, written: &OsString) -> Option<String> {
        let error = self.command.clone().try_get_matches_from([&self.args[0], written]).err()?;
        match (error.kind(), error.get(ContextKind::ValidValue)) {
            (ErrorKind::InvalidValue, Some(ContextValue::Strings(valid))) => {
                Some(format!("no such value; allowed: {}", valid.join(", ")))
            }
            (ErrorKind::InvalidValue | ErrorKind::ValueValidation, _) => {
                let why = error.source().map_or_else(|| "no value".to_owned(), ToString::to_string);
                Some(if why.contains("allowed") { why } else { format!("{why}; --help says what is allowed") })
            }
            // Rules between arguments are for the whole command line.
            _ => None,
        }
    }
}

/// The values of `arg` as text.
fn texts(matches: &ArgMatches, arg: &Arg) -> Vec<String> {
    let values = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    values.map(|value| value.to_string_lossy().into_owned()).collect()
}

/// The texts of a value of the file: of a list, all of them. `None` for other types.
pub(super) fn file_texts(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(values) => values.iter().map(|value| scalar(value.get_ref())).collect(),
        value => scalar(value).map(|text| vec![text]),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    use crate::config::value::Shape::{Count, Switch, Text};
    match value {
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        value => [Text, Count, Switch].into_iter().find_map(|shape| super::value_text(value, shape)),
    }
}
