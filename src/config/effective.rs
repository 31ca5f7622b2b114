//! The configuration in effect: all layers together, parsed, with the rules between settings applied.

#[cfg(feature = "cli")]
use super::Scope;
use super::layers::{Layers, no_such_setting};
use super::problem::{Claim, Origin, Problem, Problems};
use super::setting::{Shape, find};
#[cfg(feature = "cli")]
use super::sources;
use super::{Config, SETTINGS, rules, table};
#[cfg(feature = "cli")]
use std::ffi::OsString;
use std::fmt;

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
