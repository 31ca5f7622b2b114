//! The layers that a configuration is gathered from, and what comes of them.

use super::problem::{Claim, Origin, Problem, Problems};
use super::setting::{DefaultValue, Shape, find};
use super::{Config, environment, file, flags, resolve};
use clap::ArgMatches;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// A configuration, and where each of its values comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effective {
    /// The configuration.
    pub config: Config,
    /// Its settings, in the order of [`super::SETTINGS`].
    pub rows: Vec<Row>,
}

/// A setting as it took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: &'static str,
    /// Its value, written as on the command line.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
}

/// The configuration that flags, environment, file and defaults make, in this order. `matches` are of a command with
/// [`super::flags`] and [`super::meta_flags`]; `environment` is all of it, other programs' variables included. The file
/// is the one that `--config` or `FOREBAY_CONFIG` names; without either there is none.
///
/// # Errors
/// Everything that is wrong in all layers together. A value that a higher layer replaces is not parsed; unknown names
/// and wrong types are problems all the same.
///
/// # Panics
/// If the command behind `matches` lacks one of those flags.
pub fn load(
    matches: &ArgMatches,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, Problems> {
    let mut raw = RawConfig::default();
    flags::read(matches, &mut raw);
    environment::read(environment, &mut raw);
    if let Some((path, named_by)) = raw.config_file.take() {
        file::read(&path, &named_by, &mut raw);
    }
    resolve::resolve(raw)
}

/// The configuration that `pairs` and the defaults make; of a key that comes twice, the last value.
pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Effective, Problems> {
    let mut raw = RawConfig::default();
    for (key, value) in pairs {
        match find(key) {
            Some(setting) => {
                raw.given.insert(setting.key, Given { text: value.to_owned(), origin: Origin::Code });
            }
            None => raw.problems.push(Problem {
                claims: vec![Claim { key: key.to_owned(), value: value.to_owned(), origin: Origin::Code }],
                message: file::no_such_setting(key),
            }),
        }
    }
    resolve::resolve(raw)
}

/// What the layers hold, not yet parsed.
#[derive(Debug, Default)]
pub(super) struct RawConfig {
    /// The settings that some layer has.
    pub(super) given: BTreeMap<&'static str, Given>,
    /// The file to read, and where its path was written.
    pub(super) config_file: Option<(PathBuf, Origin)>,
    /// What was wrong already.
    pub(super) problems: Vec<Problem>,
    /// Whether a layer could not be read: settings that nobody gave may stand there.
    pub(super) incomplete: bool,
}

/// A value as a layer has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Given {
    /// As it was written.
    pub(super) text: String,
    /// Where.
    pub(super) origin: Origin,
}

impl RawConfig {
    /// Takes the value of a layer, unless a layer above had one: layers are read from the top.
    pub(super) fn offer(&mut self, key: &'static str, text: String, origin: Origin) {
        self.given.entry(key).or_insert(Given { text, origin });
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
            (Origin::Environment, _) => format!("environment {}", super::setting::environment_name(self.key)),
            (Origin::Default, Some(DefaultValue::Computed(how))) => format!("default: {how}"),
            (origin, _) => origin.to_string(),
        }
    }
}
