//! `forebay serve`: configuration, log, server, exit code.

use super::{FAILED, USAGE, WORK_LOST, printed_code};
use crate::config::{self, Config, Effective, LogFormat, LogLevel};
use crate::output::{self, LogWriter};
use crate::server::{self, Ended, HandOverError, Memory, Reloading, ServeError};
use clap::ArgMatches;
use std::env;
use std::io::{self, ErrorKind, IsTerminal as _};
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

pub(super) fn serve(matches: &ArgMatches) -> ExitCode {
    let effective = match config::load(matches, env::vars_os()) {
        Ok(effective) => effective,
        Err(problems) => {
            output::complain(&format!("forebay: {problems}"));
            return ExitCode::from(USAGE);
        }
    };
    if config::wants_check(matches) {
        let memory = Memory::of(&effective.config);
        let unused: String = effective.unused().iter().map(|warning| format!("# warning: {warning}\n")).collect();
        return printed_code(output::print(&format!("{effective}\n# {memory}\n{unused}")));
    }
    let set_log_level = start_logging(&effective.config);
    let warn = |effective: &Effective| effective.unused().iter().for_each(|warning| tracing::warn!("{warning}"));
    warn(&effective);
    let matches = matches.clone();
    let load = move || config::load(&matches, env::vars_os()).inspect(warn);
    let reloading = Reloading { load: Box::new(load), set_log_level };
    let code = exit_code(server::serve(&effective, reloading));
    output::flush_log();
    ExitCode::from(code)
}

/// The exit code for how the server ended, after printing the reason of a failure.
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
            let refused = matches!(
                error,
                ServeError::Descriptors { .. }
                    | ServeError::Memory { .. }
                    | ServeError::NoWay(_)
                    | ServeError::Door { .. }
                    | ServeError::Inherited(_)
                    | ServeError::HandOver { source: HandOverError::Refused(_), .. }
            );
            if refused { USAGE } else { FAILED }
        }
    }
}

/// Advice about an address that could not be bound.
const fn bind_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => "stop whatever holds this port, or choose another (port 0 takes a free one)",
        ErrorKind::AddrNotAvailable => "choose an address of this host, or 0.0.0.0 or [::] for all of them",
        ErrorKind::PermissionDenied => "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
        ErrorKind::InvalidInput => "choose an address of this host alone, or 0.0.0.0 or [::] for all of them",
        _ => "choose another address and port",
    }
}

/// Directs the log to standard error; returns what takes another level.
fn start_logging(config: &Config) -> Box<dyn Fn(LogLevel) + Send + Sync> {
    let log = match LogWriter::start() {
        Ok(log) => log,
        Err(error) => {
            output::complain(&format!("forebay: there will be no log: {error}"));
            return Box::new(|_| {});
        }
    };
    let lines = fmt::layer()
        .with_writer(move || log.clone())
        .with_ansi(io::stderr().is_terminal())
        // Otherwise a lost event would be reported to standard error, with a panic: a server whose standard error is
        // closed could never stop.
        .log_internal_errors(false);
    let directives = env::var("RUST_LOG").unwrap_or_default();
    let (chosen, ignored) = chosen(&directives);
    let by_environment = chosen.is_some();
    let (shown, handle) = reload::Layer::new(chosen.unwrap_or_else(|| from(config.log_level)));
    let events = tracing_subscriber::registry().with(shown);
    // An error means that the surrounding program has set a subscriber already, which is its right.
    let _ = match config.log_format {
        LogFormat::Text => events.with(lines).try_init(),
        LogFormat::Json => events.with(lines.json()).try_init(),
    };
    for directive in ignored {
        tracing::warn!(directive, "RUST_LOG: neither LEVEL nor TARGET=LEVEL, ignored");
    }
    Box::new(move |level| {
        // It fails where the surrounding program's subscriber is in use.
        if !by_environment {
            let _ = handle.reload(from(level));
        }
    })
}

/// The events of `level` and above.
fn from(level: LogLevel) -> Targets {
    Targets::new().with_default(match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    })
}

/// The events that `directives` choose, as in `warn,forebay::server=debug`, if any is valid; and the invalid directives.
fn chosen(directives: &str) -> (Option<Targets>, Vec<&str>) {
    let written = directives.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let (valid, invalid): (Vec<&str>, Vec<&str>) = written.partition(|directive| directive.parse::<Targets>().is_ok());
    let chosen = valid.join(",").parse().ok().filter(|_| !valid.is_empty());
    (chosen, invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

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

    // Does RUST_LOG choose by target and level, with the setting where it says nothing valid, and are its mistakes returned?
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
            let (chosen, invalid) = chosen(directives);
            let shown = chosen.unwrap_or_else(|| from(LogLevel::Info));
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
