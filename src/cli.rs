//! The command line (stands in until the real one is merged).

use std::ffi::OsString;
use std::process::ExitCode;

/// Stands in for the real entry point.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let words: Vec<OsString> = args.into_iter().map(Into::into).collect();
    eprintln!("this build has no server: {words:?}");
    ExitCode::from(2)
}
