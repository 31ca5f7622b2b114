//! Failures of a command without a verdict, and their exit codes.

use forebay::cli::results;
use forebay::output;
use std::fmt;

/// A command that ended without a result.
#[derive(Debug)]
pub enum Failure {
    /// The flags, or what they add up to, are wrong: exit code 2.
    Usage(String),
    /// Something went wrong while running: exit code 5.
    Broken(anyhow::Error),
    /// A result could not be written ([`output::unwritten`] says which): exit code 5.
    Unwritten(std::io::Error),
}

impl Failure {
    /// A usage failure; `message` names the flag and what is allowed.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::Usage(message.into())
    }

    /// Prints the reason on standard error, except for a closed pipe, whose reader needs no explanation.
    pub(crate) fn complain(&self) {
        match self {
            Failure::Unwritten(error) if output::loss(error).is_none() => {}
            _ => output::complain(&format!("error: {self}")),
        }
    }

    /// The process's exit code.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Broken(_) => 5,
            Failure::Unwritten(_) => 5,
        }
    }
}

impl From<results::Failure> for Failure {
    fn from(failure: results::Failure) -> Failure {
        match failure {
            results::Failure::Usage(problem) => Failure::Usage(problem),
            results::Failure::Unwritten(error) => Failure::Unwritten(error),
        }
    }
}

impl From<String> for Failure {
    fn from(problem: String) -> Failure {
        Failure::Usage(problem)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure::Broken(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) => f.write_str(message),
            Failure::Broken(error) => write!(f, "{error:#}"),
            Failure::Unwritten(error) => error.fmt(f),
        }
    }
}
