//! Failures of a command without a verdict, and their exit codes.

use forebay::output;
use std::process::ExitCode;
use std::{fmt, io};

/// A command that ended without a result.
#[derive(Debug)]
pub struct Failure {
    is_usage: bool,
    /// `None` for a result whose reader has gone and needs no explanation.
    message: Option<String>,
}

impl Failure {
    /// A usage failure: the flags, or what they add up to, are wrong. `message` names the flag and
    /// what is allowed.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { is_usage: true, message: Some(message.into()) }
    }

    /// The result is lost: `error` says which, and why it cannot be written.
    pub(crate) fn unwritten(error: &io::Error) -> Failure {
        Failure { is_usage: false, message: output::loss(error) }
    }

    /// The `error` of writing the result to standard output.
    pub(crate) fn of_result(error: &io::Error) -> Failure {
        Failure::unwritten(&output::unwritten("the result", error))
    }

    /// The exit code: 2 for usage, 5 for what went wrong while running or could not be written.
    pub(crate) const fn exit_code(&self) -> u8 {
        if self.is_usage { 2 } else { 5 }
    }

    /// The exit code, after printing the reason.
    pub(crate) fn ended(&self) -> ExitCode {
        self.message.iter().for_each(|message| output::complain(&format!("error: {message}")));
        ExitCode::from(self.exit_code())
    }
}

impl From<String> for Failure {
    fn from(problem: String) -> Failure {
        Failure::usage(problem)
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { is_usage: false, message: Some(format!("{error:#}")) }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message.as_deref().unwrap_or_default())
    }
}
