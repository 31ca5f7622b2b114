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
}

/// The configuration from `pairs` and the defaults. The last value of a repeated key counts.
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
    /// Writes a TOML file that gives this configuration, with the origins as comments.
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

/// One setting as a line of TOML.
fn toml(row: &Claim) -> String {
    let is_text = find(&row.key).is_none_or(|setting| setting.shape == Shape::Text);
    let quote = if is_text { "\"" } else { "" };
    format!("{} = {quote}{}{quote}", row.key, row.value)
}
