//! The layers that a configuration is gathered from - flag, environment, file, default - and their combination.

use super::problem::{Claim, Origin, Problem, Problems};
use super::setting::{DefaultValue, Shape, environment_name, find};
use super::value::Refusal;
use super::{Config, rules, sources, table};
use clap::ArgMatches;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A configuration, and the origin of each of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The configuration.
    pub config: Config,
    /// Its settings, in the order of [`super::SETTINGS`].
    pub rows: Vec<Row>,
}

/// A setting in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key of the setting.
    pub key: &'static str,
    /// The value, written as on the command line.
    pub value: String,
    /// The origin of the value.
    pub origin: Origin,
}

/// The configuration that flags, environment, file and defaults make, in this order. `matches` are of a command with
/// [`super::flags`] and [`super::meta_flags`]; `environment` is all of it, other programs' variables included. The file
/// is the one that `--config` or `FOREBAY_CONFIG` names; without either there is none.
///
/// # Errors
/// Everything that is wrong in all layers together: first unknown names and wrong types, then wrong values in the order
/// of [`super::SETTINGS`], then values that exclude each other. A value that a higher layer replaces is not parsed, but
/// its type is a problem all the same.
///
/// # Panics
/// If the command behind `matches` lacks one of those flags.
pub fn load(
    matches: &ArgMatches,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, Problems> {
    let mut layers = Layers::default();
    sources::read_flags(matches, &mut layers);
    sources::read_environment(environment, &mut layers);
    if let Some((path, named_by)) = layers.config_file.take() {
        sources::read_file(&path, &named_by, &mut layers);
    }
    layers.resolve()
}

/// The configuration that `pairs` and the defaults make; of a key that comes twice, the last value.
pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Effective, Problems> {
    let mut layers = Layers::default();
    for (key, value) in pairs {
        match find(key) {
            Some(setting) => {
                layers.given.insert(setting.key, Given { text: value.to_owned(), origin: Origin::Code });
            }
            None => layers.problems.push(Problem {
                claims: vec![Claim { key: key.to_owned(), value: value.to_owned(), origin: Origin::Code }],
                message: sources::no_such_setting(key),
            }),
        }
    }
    layers.resolve()
}

/// The texts in the layers, and the problems found so far.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The settings that some layer has.
    pub(super) given: BTreeMap<&'static str, Given>,
    /// The file to read, and where its path was written.
    pub(super) config_file: Option<(PathBuf, Origin)>,
    /// The problems found so far.
    pub(super) problems: Vec<Problem>,
    /// Whether a layer could not be read: it may have settings that no other layer has.
    pub(super) incomplete: bool,
    /// Settings that no layer has and that another setting decides, with the reason.
    implied: BTreeMap<&'static str, &'static str>,
}

/// A value as a layer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// The value as written.
    pub(super) text: String,
    /// The place where it was written.
    pub(super) origin: Origin,
}

impl Layers {
    /// Takes the value of a layer, unless a higher layer had one: layers are read from the top.
    pub(super) fn offer(&mut self, key: &'static str, text: String, origin: Origin) {
        self.given.entry(key).or_insert(Given { text, origin });
    }

    /// Parses each value, then applies the rules between settings.
    fn resolve(mut self) -> Result<Effective, Problems> {
        let mut config = table::parse(&mut self);
        rules::apply(&mut config, &mut self);
        match Problems::from_vec(std::mem::take(&mut self.problems)) {
            Some(problems) => Err(problems),
            None => {
                let row = |(key, value)| Row { key, value, origin: self.origin(key) };
                Ok(Effective { rows: config.to_pairs().into_iter().map(row).collect(), config })
            }
        }
    }

    /// The value of `key` if some layer has it and it is valid; an invalid one becomes a problem.
    pub(super) fn given<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, Refusal>) -> Option<T> {
        let given = self.given.get(key)?;
        let refusal = match parse(&given.text) {
            Ok(value) => return Some(value),
            Err(refusal) => refusal,
        };
        let claim = Claim { key: key.to_owned(), value: given.text.clone(), origin: given.origin.clone() };
        let allowed = find(key).map_or_else(String::new, |setting| setting.allowed.to_string());
        self.problems.push(Problem { claims: vec![claim], message: format!("{refusal}; allowed: {allowed}") });
        None
    }

    /// True if some layer has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// True if the intended value of `key` is unknown: its value is wrong, or it may have one in a layer that could not
    /// be read.
    pub(super) fn is_open(&self, key: &str) -> bool {
        let is_it = |problem: &Problem| matches!(problem.claims.as_slice(), [claim] if claim.key == key);
        self.problems.iter().any(is_it) || (self.incomplete && !self.has(key))
    }

    /// Reports that the values of `keys` in `config` exclude each other, unless one of them is unknown: correcting it
    /// may resolve the conflict.
    pub(super) fn conflict(&mut self, config: &Config, keys: [&str; 2], message: &str) {
        if keys.iter().any(|key| self.is_open(key)) {
            return;
        }
        let claim = |key| match (self.given.get(key), find(key)) {
            (Some(Given { text, origin }), _) => {
                Claim { key: key.to_owned(), value: text.clone(), origin: origin.clone() }
            }
            (None, setting) => {
                let value = setting.map_or_else(String::new, |setting| (setting.show)(config));
                Claim { key: key.to_owned(), value, origin: Origin::Default }
            }
        };
        self.problems.push(Problem { claims: keys.map(claim).to_vec(), message: message.to_owned() });
    }

    /// Notes that another setting decides `key`, which no layer has.
    pub(super) fn imply(&mut self, key: &'static str, reason: &'static str) {
        self.implied.insert(key, reason);
    }

    /// The origin of the value of `key`.
    fn origin(&self, key: &str) -> Origin {
        match (self.implied.get(key), self.given.get(key)) {
            (Some(reason), _) => Origin::Implied(reason),
            (None, Some(given)) => given.origin.clone(),
            (None, None) => Origin::Default,
        }
    }
}

impl fmt::Display for Effective {
    /// A TOML file that makes this configuration, with the origins as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.rows.iter().map(Row::toml).collect();
        let width = lines.iter().map(String::len).max().unwrap_or(0);
        for (index, (row, line)) in self.rows.iter().zip(&lines).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{line:width$}  # {}", row.origin_text())?;
        }
        Ok(())
    }
}

impl Row {
    fn toml(&self) -> String {
        let quote = match find(self.key).map(|setting| setting.shape) {
            Some(Shape::Count | Shape::Switch) => "",
            Some(Shape::Text) | None => "\"",
        };
        format!("{} = {quote}{}{quote}", self.key, self.value)
    }

    fn origin_text(&self) -> String {
        match (&self.origin, find(self.key).map(|setting| setting.default)) {
            (Origin::Flag, _) => format!("flag --{}", self.key),
            (Origin::Environment, _) => format!("environment {}", environment_name(self.key)),
            (Origin::Default, Some(DefaultValue::Computed(how))) => format!("default: {how}"),
            (origin, _) => origin.to_string(),
        }
    }
}
