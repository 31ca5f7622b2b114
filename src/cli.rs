//! The command line: what `forebay` understands, says and returns.

use crate::command::Failure;
use crate::command::plan::{PlanArguments, plan};
use crate::command::simulate::{SimulateArguments, simulate};
use crate::config::{self, LogFormat};
use crate::output::{self, LogWriter};
use crate::server::{self, Ended, Memory, ServeError};
use clap::{ArgMatches, Args as _, Command, FromArgMatches};
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The server failed while it ran, or could not start for a reason that is no setting's.
const FAILED: u8 = 1;
/// Usage or configuration is wrong; clap ends with the same number.
const USAGE: u8 = 2;
/// The server was stopped and could not finish what it held.
const WORK_LOST: u8 = 3;

/// Runs the program that `args` describe, the first being the program's name, and returns its exit code: 0 fine, 1
/// failed while running, 2 usage or configuration, 3 stopped with work lost. Reads the process's environment, and
/// directs this process's `tracing` events to standard error unless the caller has directed them elsewhere before.
pub fn run<I, T>(args: I) -> ExitCode
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => {
            // Help and version are results; of a wrong usage nobody is left to be told.
            let printed = error.print();
            return if error.use_stderr() { code(error.exit_code()) } else { printed_code(printed) };
        }
    };
    match matches.subcommand() {
        Some(("serve", matches)) => serve(matches),
        Some(("simulate", matches)) => compute(matches, simulate),
        Some(("plan", matches)) => compute(matches, plan),
        _ => unreachable!("clap ends without a known subcommand"),
    }
}

/// Prints what `command` makes of its flags, or why it makes nothing of them.
fn compute<A: FromArgMatches>(matches: &ArgMatches, command: fn(&A) -> Result<String, Failure>) -> ExitCode {
    let arguments = A::from_arg_matches(matches).map_err(|error| Failure::Usage(error.to_string()));
    match arguments.and_then(|arguments| command(&arguments)) {
        Ok(text) => printed_code(output::print(&text)),
        Err(Failure::Unwritten(error)) => lost_code(&error),
        Err(Failure::Usage(problem)) => {
            output::complain(&format!("forebay: {problem}"));
            ExitCode::from(USAGE)
        }
    }
}

fn serve(matches: &ArgMatches) -> ExitCode {
    let effective = match config::load(matches, env::vars_os()) {
        Ok(effective) => effective,
        Err(problems) => {
            output::complain(&format!("forebay: {problems}"));
            return ExitCode::from(USAGE);
        }
    };
    if config::wants_check(matches) {
        let memory = Memory::of(effective.config.workers);
        return printed_code(output::print(&format!("{effective}\n# {memory}\n")));
    }
    start_logging(effective.config.log_format);
    let code = exit_code(server::serve(&effective.config));
    output::flush_log();
    ExitCode::from(code)
}

/// The exit code of a command whose result was `printed`, or was not.
fn printed_code(printed: io::Result<()>) -> ExitCode {
    printed.map_or_else(|error| lost_code(&output::unwritten("the result", &error)), |()| ExitCode::SUCCESS)
}

/// The exit code of a command whose result is lost, after saying why.
fn lost_code(error: &io::Error) -> ExitCode {
    if let Some(why) = output::loss(error) {
        output::complain(&format!("forebay: {why}"));
    }
    ExitCode::from(FAILED)
}

/// The exit code for how the server ended, after saying why if it failed.
fn exit_code(ended: Result<Ended, ServeError>) -> u8 {
    match ended {
        Ok(Ended::Drained) => 0,
        Ok(Ended::Forced) => WORK_LOST,
        Err(ServeError::Bind { setting, address, source }) => {
            let (flag, advice) = (setting.trim_start_matches('-'), bind_advice(source.kind()));
            output::complain(&format!("forebay: --{flag} {address}: {source}; {advice}"));
            USAGE
        }
        Err(error) => {
            output::complain(&format!("forebay: {error}"));
            let refused = matches!(error, ServeError::Descriptors { .. } | ServeError::NoWay(_));
            if refused { USAGE } else { FAILED }
        }
    }
}

/// What to do about an address that could not be bound.
const fn bind_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => "stop whatever holds this port, or choose another (port 0 takes a free one)",
        ErrorKind::AddrNotAvailable => "choose an address of this host, or 0.0.0.0 or [::] for all of them",
        ErrorKind::PermissionDenied => "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
        ErrorKind::InvalidInput => "choose an address of this host alone, or 0.0.0.0 or [::] for all of them",
        _ => "choose another address and port",
    }
}

fn start_logging(format: LogFormat) {
    let log = match LogWriter::start() {
        Ok(log) => log,
        Err(error) => return output::complain(&format!("forebay: there will be no log: {error}")),
    };
    let lines = fmt::layer()
        .with_writer(move || log.clone())
        .with_ansi(io::stderr().is_terminal())
        // It would report a lost event to standard error, and panic there: a server whose reader has gone could never
        // stop.
        .log_internal_errors(false);
    let directives = env::var("RUST_LOG").unwrap_or_default();
    let (shown, ignored) = shown(&directives);
    let events = tracing_subscriber::registry().with(shown);
    // An error means that the program around us listens to events already, which is its right.
    let _ = match format {
        LogFormat::Text => events.with(lines).try_init(),
        LogFormat::Json => events.with(lines.json()).try_init(),
    };
    for directive in ignored {
        tracing::warn!(directive, "RUST_LOG: neither LEVEL nor TARGET=LEVEL, ignored");
    }
}

/// The events that `directives` choose, as in `warn,forebay::server=debug`, or those of level `info` and above if none
/// is valid; and the invalid directives.
fn shown(directives: &str) -> (Targets, Vec<&str>) {
    let written = directives.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let (valid, invalid): (Vec<&str>, Vec<&str>) = written.partition(|directive| directive.parse::<Targets>().is_ok());
    let shown = match valid.join(",").parse() {
        Ok(targets) if !valid.is_empty() => targets,
        _ => Targets::new().with_default(LevelFilter::INFO),
    };
    (shown, invalid)
}

fn command() -> Command {
    Command::new("forebay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("A UDP server that keeps cheap requests fast while others cost a thousand times more.")
        .after_help(format!("`forebay COMMAND --help` explains every flag.\n\n{EXIT_CODES}"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(
            Command::new("serve")
                .about("Serve requests until SIGTERM or SIGINT, then finish what was received.")
                .after_help("--help says more: allowed values, environment, exit codes.")
                .after_long_help(format!("{LAYERS}\n\n{UNITS}\n\n{EXIT_CODES}"))
                .args(config::flags())
                .args(config::meta_flags()),
        )
        // The summary comes last: clap would put the documentation of the flags in its place.
        .subcommand(
            SimulateArguments::augment_args(Command::new("simulate"))
                .about("Simulate policies in virtual time: the latencies that each would give a workload.")
                .after_help(
                    "Example:\n  forebay simulate --policy steal,ondemand,srpt --load 0.1..0.9:0.1 --html curves.html",
                ),
        )
        .subcommand(
            PlanArguments::augment_args(Command::new("plan"))
                .about("Find the fewest workers, the policy and its sizes that hold a latency goal, in virtual time.")
                .after_help(
                    "Example:\n  forebay plan --workload extreme-bimodal --rate 2000000 --slo 'p99.9-slowdown<=20'",
                ),
        )
}

const LAYERS: &str = "\
Each setting is taken from the first of: flag, environment, file (--config), default. All problems are reported at \
once. An unknown key in the file and an unknown FOREBAY_ variable are problems too.";

const UNITS: &str = "\
Durations have a unit: ns, us, ms, s, min, h, as in 50us, 1.5ms, 1s.";

const EXIT_CODES: &str = "\
Exit codes:
  0  fine: stopped, and everything received was finished
  1  failed while running, or its result could not be written (also to a reader that has gone, as `head` does)
  2  wrong usage or configuration, an address that cannot be bound, too few file descriptors, or no system call permitted
     that receives or sends
  3  stopped with work lost: requests were unfinished when the drain timeout passed or a further signal came";

fn code(exit_code: i32) -> ExitCode {
    u8::try_from(exit_code).map_or(ExitCode::from(FAILED), ExitCode::from)
}

#[cfg(test)]
mod command_lines;

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    // Is the command well-formed in every part that clap checks only in debug builds?
    #[test]
    fn the_command_is_consistent() {
        command().debug_assert();
    }

    // Does each subcommand say in its summary what it does, and not what its flags are called in the source?
    #[test]
    fn every_subcommand_has_a_summary() {
        for subcommand in command().get_subcommands() {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.len() > 40 && !about.contains("Flags of"), "{}: {about}", subcommand.get_name());
            assert_eq!(subcommand.get_long_about(), None, "{}", subcommand.get_name());
        }
    }

    // Does each end have the exit code that the help states?
    #[test]
    fn ends_have_their_exit_codes() {
        assert_eq!(exit_code(Ok(Ended::Drained)), 0);
        assert_eq!(exit_code(Ok(Ended::Forced)), 3);
        let source = io::Error::from(ErrorKind::AddrInUse);
        let address = ([127, 0, 0, 1], 9_000).into();
        assert_eq!(exit_code(Err(ServeError::Admin("it ended".to_owned()))), 1);
        assert_eq!(exit_code(Err(ServeError::Output(io::Error::from(ErrorKind::StorageFull)))), 1);
        assert_eq!(exit_code(Err(ServeError::Descriptors { workers: 9, needed: 99, allowed: 9 })), 2);
        assert_eq!(exit_code(Err(ServeError::Bind { setting: "listen", address, source })), 2);
    }

    // Does RUST_LOG choose by target and level, with `info` where it says nothing valid, and are its mistakes returned?
    #[test]
    fn events_are_chosen_by_target_and_level() {
        const SERVER: &str = "forebay::server";
        for (directives, target, most_verbose, ignored) in [
            ("", SERVER, Level::INFO, &[][..]),
            ("warn", SERVER, Level::WARN, &[]),
            ("warn, forebay::server=debug", SERVER, Level::DEBUG, &[]),
            ("warn,forebay::server=debug", "hyper", Level::WARN, &[]),
            ("forebay=loud,debug", SERVER, Level::DEBUG, &["forebay=loud"]),
            ("forebay=loud", SERVER, Level::INFO, &["forebay=loud"]),
        ] {
            let (shown, invalid) = shown(directives);
            let levels = [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE];
            let enabled = levels.into_iter().rfind(|level| shown.would_enable(target, level));
            assert_eq!((enabled, &invalid[..]), (Some(most_verbose), ignored), "{directives}");
        }
    }

    // Does every kind of failure to bind say what to do?
    #[test]
    fn advice_fits_the_failure() {
        assert!(bind_advice(ErrorKind::AddrInUse).contains("stop whatever holds this port"));
        assert!(bind_advice(ErrorKind::PermissionDenied).contains("1023"));
        assert!(!bind_advice(ErrorKind::Other).is_empty());
    }
}
