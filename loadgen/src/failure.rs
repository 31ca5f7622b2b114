//! Commands that fail, and their exit codes.

use forebay::output;
use std::process::ExitCode;
use std::{fmt, io};

/// A command that ended without a result.
#[derive(Debug)]
pub struct Failure {
    is_usage: bool,
    /// `None` if the reader of the result has gone: no message is needed.
    message: Option<String>,
}

impl Failure {
    /// A usage failure: a flag, or a combination of flags, is wrong. `message` names the flag and
    /// the allowed values.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure { is_usage: true, message: Some(message.into()) }
    }

    /// A failure to write a result; `error` says which result and why.
    pub(crate) fn unwritten(error: &io::Error) -> Failure {
        Failure { is_usage: false, message: output::loss(error) }
    }

    /// The failure for an `error` of writing the result to standard output.
    pub(crate) fn of_result(error: &io::Error) -> Failure {
        Failure::unwritten(&output::unwritten("the result", error))
    }

    /// The exit code: 2 for usage, 5 for what went wrong while running or could not be written.
    pub(crate) const fn exit_code(&self) -> u8 {
        if self.is_usage { 2 } else { 5 }
    }

    /// Prints the reason and returns the exit code.
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
