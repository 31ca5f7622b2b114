//! The configuration in effect: the texts of all layers together (flag, environment, file), parsed, with the rules between
//! settings applied.

use super::problem::{Claim, Origin, Problem, Problems, suggestion};
use super::setting::{CHECK_CONFIG, CHECK_HEALTH, CONFIG, Setting, Shape, find};
use super::value::Refusal;
use super::{Config, SETTINGS, rules, table};
#[cfg(feature = "cli")]
use super::{Scope, sources};
use std::collections::BTreeMap;
#[cfg(feature = "cli")]
use std::ffi::OsString;
use std::fmt;
#[cfg(feature = "cli")]
use std::path::PathBuf;

/// A configuration, and the origin of each of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    /// The configuration.
    pub(crate) config: Config,
    /// The settings that the program has, in the order of [`super::SETTINGS`].
    pub(crate) rows: Vec<Claim>,
}

/// The configuration that flags, environment, file and defaults make, in this order, for a program that has the settings of
/// `scope`. `matches` are of a command with [`super::with_flags`]; `environment` is all of it, other programs' variables included. The file
/// is the one that `--config` or `FOREBAY_CONFIG` names; without either there is none.
///
/// # Errors
/// Everything that is wrong in all layers together. Unknown names and wrong types come first, then wrong values in
/// the order of [`super::SETTINGS`], then values that exclude each other. A value that a higher layer replaces is not
/// parsed, but its type is a problem all the same.
///
/// # Panics
/// If the command behind `matches` lacks one of those flags.
#[cfg(feature = "cli")]
pub(crate) fn load(
    scope: &Scope,
    matches: &clap::ArgMatches,
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Effective, Problems> {
    let mut layers = Layers::default();
    sources::read_flags(scope, matches, &mut layers);
    sources::read_environment(scope, environment, &mut layers);
    if let Some((path, named_by)) = layers.config_file.take() {
        sources::read_file(scope, &path, &named_by, &mut layers);
    }
    scope.offer_defaults(&mut layers);
    let mut effective = resolve(layers)?;
    effective.rows.retain(|row| scope.find(&row.key).is_some());
    Ok(effective)
}

/// The configuration that `pairs` and the defaults make; of a key that comes twice, the last value.
pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Effective, Problems> {
    let mut layers = Layers::default();
    for (key, value) in pairs {
        match find(key) {
            Some(_) => {
                layers.given.insert(key.to_owned(), Claim::new(key, value, Origin::Code));
            }
            None => {
                let message = no_such_setting(key, SETTINGS.iter());
                layers.problems.push(Problem::of(key, value, Origin::Code, message));
            }
        }
    }
    resolve(layers)
}

/// Parses each value, then applies the rules between settings.
pub(super) fn resolve(mut layers: Layers) -> Result<Effective, Problems> {
    let mut config = table::parse(&mut layers);
    rules::apply(&mut config, &mut layers);
    if !layers.problems.is_empty() {
        return Err(Problems(layers.problems));
    }
    let row = |(key, value)| Claim::new(key, value, layers.origin(key));
    Ok(Effective { rows: config.to_pairs().into_iter().map(row).collect(), config })
}

impl fmt::Display for Effective {
    /// A TOML file that makes this configuration, with the origins as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.rows.iter().map(toml).collect();
        let width = lines.iter().map(String::len).max().unwrap_or(0);
        for (index, (row, line)) in self.rows.iter().zip(&lines).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{line:width$}  # {}", row.origin_text())?;
        }
        Ok(())
    }
}

/// The line of a setting in a TOML file.
fn toml(row: &Claim) -> String {
    let is_text = find(&row.key).is_none_or(|setting| setting.shape == Shape::Text);
    let quote = if is_text { "\"" } else { "" };
    format!("{} = {quote}{}{quote}", row.key, row.value)
}

/// The texts in the layers, and the problems found so far.
#[derive(Debug, Default)]
pub(super) struct Layers {
    /// The settings that some layer has.
    pub(super) given: BTreeMap<String, Claim>,
    /// The file to read, and where its path was written.
    #[cfg(feature = "cli")]
    pub(super) config_file: Option<(PathBuf, Origin)>,
    /// The problems found so far.
    pub(super) problems: Vec<Problem>,
    /// Whether a layer could not be read: it may have settings that no other layer has.
    pub(super) incomplete: bool,
    /// Settings that no layer has and that another setting decides, with the reason.
    implied: BTreeMap<&'static str, &'static str>,
}

impl Layers {
    /// Takes the value of a layer, unless a higher layer had one: layers are read from the top.
    #[cfg(feature = "cli")]
    pub(super) fn offer(&mut self, key: &'static str, text: String, origin: Origin) {
        self.given.entry(key.to_owned()).or_insert(Claim::new(key, text, origin));
    }

    /// The value of `key` if some layer has it and it is valid; an invalid one becomes a problem.
    pub(super) fn given<T>(&mut self, key: &str, parse: fn(&str) -> Result<T, Refusal>) -> Option<T> {
        let given = self.given.get(key)?;
        let refusal = match parse(&given.value) {
            Ok(value) => return Some(value),
            Err(refusal) => refusal,
        };
        let allowed = find(key).map_or_else(String::new, |setting| setting.allowed.to_string());
        let message = format!("{refusal}; allowed: {allowed}");
        self.problems.push(Problem { claims: vec![given.clone()], message });
        None
    }

    /// True if some layer has `key`.
    pub(super) fn has(&self, key: &str) -> bool {
        self.given.contains_key(key)
    }

    /// True if the intended value of `key` is unknown. Its value is wrong, or a layer that could not be read may have one.
    pub(super) fn is_open(&self, key: &str) -> bool {
        let is_it = |problem: &Problem| matches!(problem.claims.as_slice(), [claim] if claim.key == key);
        self.problems.iter().any(is_it) || (self.incomplete && !self.has(key))
    }

    /// Reports that the values of `keys` in `config` exclude each other, unless one of them is unknown: correcting it
    /// may resolve the conflict.
    pub(super) fn conflict(&mut self, config: &Config, keys: [&str; 2], message: String) {
        if keys.iter().any(|key| self.is_open(key)) {
            return;
        }
        let claim = |key: &str| {
            let shown = || find(key).map_or_else(String::new, |setting| (setting.show)(config));
            self.given.get(key).cloned().unwrap_or_else(|| Claim::new(key, shown(), Origin::Default))
        };
        self.problems.push(Problem { claims: keys.map(claim).to_vec(), message });
    }

    /// Notes that another setting decides `key`, which no layer has.
    pub(super) fn imply(&mut self, key: &'static str, reason: &'static str) {
        self.implied.insert(key, reason);
    }

    /// The origin of the value of `key`.
    pub(super) fn origin(&self, key: &str) -> Origin {
        match (self.implied.get(key), self.given.get(key)) {
            (Some(reason), _) => Origin::Implied(reason),
            (None, Some(given)) => given.origin.clone(),
            (None, None) => Origin::Default,
        }
    }
}

/// What is said about a `key` that is none of `settings`.
pub(super) fn no_such_setting<'a>(key: &str, settings: impl Iterator<Item = &'a Setting>) -> String {
    if [CONFIG, CHECK_CONFIG, CHECK_HEALTH].contains(&key) {
        return "only a flag, never a key".to_owned();
    }
    let keys: Vec<&str> = settings.map(|setting| setting.key).collect();
    format!("no such setting{}; allowed: {}", suggestion(key, keys.iter().copied()), keys.join(", "))
}
