//! The command line: subcommands, their output and their exit codes.

mod get;
mod service;

pub use get::get;
pub use service::main;

use crate::config::{self, Group, HELP_ALL, Scope};
use crate::{output, server};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgMatches, Command, Error};
use service::serve;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Exit code: the server failed while running, or could not start for a reason other than its
/// settings.
const FAILED: u8 = 1;
/// Exit code: usage or configuration is wrong. clap uses the same number.
const USAGE: u8 = 2;
/// Exit code: the server was stopped with unfinished work.
const WORK_LOST: u8 = 3;

/// Runs the program that `args` describe; the first is the program's name. Returns its exit code: 0
/// fine, 1 failed while running, 2 usage or configuration, 3 stopped with work lost. Reads the
/// environment, and sends `tracing` events to standard error unless the caller has set a subscriber
/// before.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let matches = match parsed(command(), &args, is_rare) {
        Ok(matches) => matches,
        Err(mut error) => {
            hint(&mut error, &args);
            return told(&error);
        }
    };
    let serving = matches.subcommand_matches("serve").expect("it is the only subcommand, and required");
    serve("forebay", &Scope::ALL, serving, |_, bind| Ok(server::run_bench(bind()?)?))
}

/// Whether few users of `forebay serve` need `flag`.
fn is_rare(flag: &Arg) -> bool {
    [Group::Tuning, Group::Bench].iter().any(|group| Some(group.name()) == flag.get_help_heading())
}

/// Hides the help of flags that are rare. [`command`], which other programs describe, keeps it.
fn shortened(command: Command, is_rare: fn(&Arg) -> bool) -> Command {
    let hidden = |flag: Arg| {
        let is_rare = is_rare(&flag);
        flag.hide(is_rare)
    };
    command.mut_args(hidden).mut_subcommands(|command| shortened(command, is_rare))
}

/// Parses `args` by `command`, whose help leaves out what is rare. Help and version are errors.
fn parsed(command: Command, args: &[OsString], is_rare: fn(&Arg) -> bool) -> Result<ArgMatches, Error> {
    let shows_all = args.iter().any(|arg| arg.to_str().is_some_and(|arg| arg.strip_prefix("--") == Some(HELP_ALL)));
    if shows_all { command } else { shortened(command, is_rare) }.try_get_matches_from(args)
}

/// Prints help, version or a usage error, and returns the exit code.
fn told(error: &Error) -> ExitCode {
    // Help and version are results. A usage error that cannot be printed is lost.
    let printed = error.print();
    if error.use_stderr() { ExitCode::from(USAGE) } else { ended(printed) }
}

/// Adds to `error` a tip if `args` begin with a flag of the server: the command that accepts the
/// flag.
fn hint(error: &mut Error, args: &[OsString]) {
    let flag = args.get(1).and_then(|arg| arg.to_str()?.strip_prefix("--")?.split('=').next());
    let serve = config::with_flags(Command::new("serve"), &Scope::ALL);
    if let Some(key) = flag.filter(|key| serve.get_arguments().any(|flag| flag.get_long() == Some(key))) {
        let tip = format!("--{key} is a flag of the server: forebay serve --{key}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// The exit code of a command that has `printed` its result. If that failed, complains on standard
/// error.
fn ended(printed: io::Result<()>) -> ExitCode {
    let Err(error) = printed else { return ExitCode::SUCCESS };
    let lost = output::loss(&output::unwritten("the result", &error));
    lost.iter().for_each(|lost| output::complain(&format!("forebay: {lost}")));
    ExitCode::from(FAILED)
}

/// The whole command line, for programs that describe it.
pub fn command() -> Command {
    let command = Command::new("forebay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A UDP server that keeps cheap requests fast while others cost a thousand times more.")
        .after_help(format!("`forebay COMMAND --help` explains the flags.\n\n{EXIT_CODES}"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true);
    let serve = Command::new("serve").about(SERVE);
    command.subcommand(with_server_flags(serve, "forebay serve", &Scope::ALL))
}

const SERVE: &str = "Serve requests until SIGTERM, SIGINT or SIGQUIT, then finish what was received";

/// Adds to `command` the flags of a server with the settings of `scope`, and an example that begins
/// with `program`.
fn with_server_flags(command: Command, program: &str, scope: &Scope) -> Command {
    let example = format!("Example:\n  {program} --listen 127.0.0.1:9000 --workers 4 --policy pools --check-config");
    config::with_flags(command, scope)
        .after_help(format!("{example}\n\n--help says more: allowed values, environment, exit codes.\n{MORE}"))
        .after_long_help(format!("{example}\n\n{LAYERS}\n\n{UNITS}\n\n{EXIT_CODES}\n\n{MORE}"))
}

const MORE: &str = "--help-all shows the rest of the settings.";

const LAYERS: &str = "\
The first of these that has a setting decides: flag, environment, file (--config), default. All problems are reported at \
once. An unknown key in the file is a problem, and so is an unknown FOREBAY_ variable.";

const UNITS: &str = "\
Durations have a unit: ns, us, ms, s, min, h, as in 50us, 1.5ms, 1s.";

const EXIT_CODES: &str = "\
Exit codes:
  0  stopped, and all received requests were finished
  1  failed while running, or could not write its result (the reader may be gone, like `head`)
  2  wrong usage or configuration, or the host does not permit it: an address that cannot be bound,
     too few file descriptors, too little memory, no system call to receive or send
  3  stopped with requests unfinished: the drain timeout passed, or a second signal came";

#[cfg(test)]
mod tests;
