//! The problems of a configuration, and where each was written.

use super::table::{environment_name, find};
use std::fmt;
use std::path::PathBuf;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A flag on the command line.
    Flag,
    /// The value comes from an environment variable.
    Environment,
    /// The value comes from the configuration file.
    File {
        /// The path as the user gave it.
        path: PathBuf,
        /// The line of the key, counted from 1.
        line: usize,
    },
    /// The value comes from code that calls [`super::Config::from_pairs`].
    Code,
    /// A default that the program passes to `forebay::main`; no layer sets the value.
    Program,
    /// The default of the table; no layer sets the value.
    Default,
    /// The running server. Changing the value takes a restart.
    Running,
    /// Another setting decides the value, and no layer sets it. The phrase names that setting.
    Implied(&'static str),
}

/// A setting's value with its origin. A [`Problem`] consists of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Key of the setting, or the text that was written in its place.
    pub key: String,
    /// The value as written.
    pub value: String,
    /// Where the value was written.
    pub origin: Origin,
}

/// One problem of a configuration: a wrong value, or two that exclude each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The one wrong value, or the two that exclude each other; none where something is missing.
    pub claims: Vec<Claim>,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// All problems of a configuration, at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Problems(pub(super) Vec<Problem>);

crate::time::show_as_text!(Problems);

impl Problems {
    /// Each problem, in the order of discovery.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }
}

impl std::error::Error for Problems {}

impl fmt::Display for Problems {
    /// Writes a heading, then a line for each problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            1 => f.write_str("1 problem in the configuration:")?,
            count => write!(f, "{count} problems in the configuration:")?,
        }
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl Problem {
    /// The problem that the `value` of `key` is wrong.
    pub(super) fn of(key: &str, value: impl Into<String>, origin: Origin, message: String) -> Problem {
        Problem { claims: vec![Claim::new(key, value, origin)], message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, claim) in self.claims.iter().enumerate() {
            let joint = if index == 0 { "" } else { " with " };
            write!(f, "{joint}{claim}")?;
        }
        let joint = if self.claims.is_empty() { "" } else { ": " };
        write!(f, "{joint}{}", self.message)
    }
}

impl Claim {
    pub(crate) fn new(key: &str, value: impl Into<String>, origin: Origin) -> Claim {
        Claim { key: key.to_owned(), value: value.into(), origin }
    }

    /// The origin as text, with the setting's name in that layer.
    pub(super) fn origin_text(&self) -> String {
        match (&self.origin, find(&self.key)) {
            (Origin::Flag, _) => format!("flag --{}", self.key),
            (Origin::Environment, _) => format!("environment {}", environment_name(&self.key)),
            (Origin::Default, Some(setting)) if setting.computed => format!("default: {}", setting.default),
            (origin, _) => origin.to_string(),
        }
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?} ({})", self.key, self.value, self.origin_text())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Environment => f.write_str("environment"),
            Origin::File { path, line } => write!(f, "file {} line {line}", path.display()),
            Origin::Code => f.write_str("code"),
            Origin::Program => f.write_str("default of this program"),
            Origin::Default => f.write_str("default"),
            Origin::Running => f.write_str("running"),
            Origin::Implied(reason) => f.write_str(reason),
        }
    }
}
