//! The log: which events are written to standard error, and how.

use crate::config::{Config, LogFormat, LogLevel};
use crate::output::{self, LogWriter};
use std::env;
use std::io::{self, IsTerminal as _};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Directs the log to standard error; returns what takes another level.
pub(super) fn start_logging(name: &str, config: &Config) -> Box<dyn Fn(LogLevel) + Send + Sync> {
    let log = match LogWriter::start() {
        Ok(log) => log,
        Err(error) => {
            output::complain(&format!("{name}: there will be no log: {error}"));
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
    Targets::new().with_default(level.name().parse::<LevelFilter>().expect("tracing has the same levels"))
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
}
