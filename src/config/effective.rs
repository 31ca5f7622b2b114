//! The effective configuration: all layers merged and parsed, with the rules between settings
//! applied.

use super::layers::{Layers, no_such_setting};
use super::problem::{Claim, Origin, Problem, Problems};
use super::rules;
use super::table::{self, Config, SETTINGS, find};
use super::value::Shape;
use std::fmt;

/// A checked configuration, with the origin of each value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) config: Config,
    /// The value and origin of each setting of this program, in the order of [`super::SETTINGS`].
    pub(crate) rows: Vec<Claim>,
    pub(crate) own: OwnSettings,
}

/// The settings that the program adds to those of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnSettings {
    pub(crate) rows: Vec<OwnRow>,
    /// The values, as the program's struct takes them.
    #[cfg(feature = "cli")]
    pub(crate) matches: clap::ArgMatches,
}

/// A setting that the program adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnRow {
    pub(crate) key: String,
    pub(crate) values: Vec<String>,
    pub(crate) origin: Origin,
    /// Whether no report may show the value.
    pub(crate) is_secret: bool,
}

impl OwnRow {
    /// What reports show instead of a secret.
    pub(crate) const SECRET: &str = "(secret)";

    /// The setting as reports show it.
    pub(crate) fn claim(&self) -> Claim {
        let value = if self.is_secret { Self::SECRET.to_owned() } else { self.values.join(",") };
        Claim::new(&self.key, value, self.origin.clone())
    }

    /// The setting as a line of TOML: a comment for a secret and for a setting without a value.
    fn toml(&self) -> String {
        let key = &self.key;
        match &self.values[..] {
            values if self.is_secret || values.is_empty() => format!("# {key} = {}", self.claim().value),
            [value] => format!("{key} = {value:?}"),
            values => format!("{key} = {values:?}"),
        }
    }
}

/// The table of the file with the settings that the program adds.
pub(super) const SERVICE: &str = "service";

/// The configuration from `pairs` and the defaults. The last value of a repeated key counts.
pub(super) fn from_pairs<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Effective, Problems> {
    let mut layers = Layers::default();
    for (key, value) in pairs {
        match find(key) {
            Some(_) => {
                layers.given.insert(key.to_owned(), Claim::new(key, value, Origin::Code));
            }
            None => {
                let message = no_such_setting(key, SETTINGS.iter().map(|setting| setting.key));
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
    Ok(Effective { rows: config.to_pairs().into_iter().map(row).collect(), config, own: OwnSettings::default() })
}

impl fmt::Display for Effective {
    /// Writes a TOML file that gives this configuration, with the origins as comments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.own.rows.iter().map(|row| (row.toml(), row.claim().origin_text()));
        let mut lines: Vec<_> = self.rows.iter().map(|row| (toml(row), row.origin_text())).chain(own).collect();
        let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
        if lines.len() > self.rows.len() {
            lines.insert(self.rows.len(), (format!("[{SERVICE}]"), "settings of this program".to_owned()));
        }
        for (index, (line, origin)) in lines.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{line:width$}  # {origin}")?;
        }
        Ok(())
    }
}

/// One setting as a line of TOML.
fn toml(row: &Claim) -> String {
    let is_text = find(&row.key).is_none_or(|setting| setting.shape == Shape::Text);
    let quote = if is_text { "\"" } else { "" };
    format!("{} = {quote}{}{quote}", row.key, row.value)
}
