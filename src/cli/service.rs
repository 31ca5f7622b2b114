//! A complete program around a handler: flags, configuration, log, server, exit code. `forebay
//! serve` is one.

use super::{FAILED, USAGE, WORK_LOST, ended, get, parsed, told, with_server_flags};
use crate::config::{self, Config, Effective, Group, LogFormat, LogLevel, OwnFlags, Scope};
use crate::output::{self, LogWriter, plain, print};
use crate::server::{Ended, HandOverError, Memory, Report, ServeError, Server};
use clap::error::ErrorKind as ClapKind;
use clap::{Arg, ArgMatches, Args, Command};
use std::cell::Cell;
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::iter;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{fmt, reload};

/// Runs a complete program around a handler, as `forebay serve` is one. Call it once, from `main`.
///
/// The program has all settings of [`SETTINGS`](crate::config::SETTINGS) except group
/// [`Bench`](crate::config::Group::Bench): as flags, in the environment (`FOREBAY_...`) and in the
/// file of `--config`. `--check-config` prints them with their origins. `--check-health` asks a
/// running server for its health. The program logs to standard error. It drains on SIGTERM, SIGINT
/// and SIGQUIT, and reloads its configuration on SIGHUP. It takes sockets from systemd, or from a
/// predecessor (`--handover`). It prints where it listens, and at the end the fates of all
/// datagrams.
///
/// - `A` holds the settings that the program adds: a struct with `derive(clap::Args)`, or `()`.
///   They come first in the help, whose head is the struct's documentation. `#[command(version)]`
///   adds `--version`. A flag with a long name is a setting like the server's. `--greeting` is also
///   the variable `FOREBAY_GREETING`, and the key `greeting` in the table `[service]` of the file.
///   A `Vec` is a list there. `--check-config` and `/config` show it, with `(secret)` for a field
///   with `#[arg(hide_env_values = true)]`.
/// - `defaults` are pairs of key and value that replace defaults of settings, such as the port.
///   Flags, environment and file override them.
/// - `run` gets these settings and a function that binds the [`Server`]. It makes the service, then
///   binds, then calls [`Server::run`]. An error before it binds gives exit code 2, also for
///   `--check-config`, which ends where `run` binds.
///
/// Returns the exit code: 0 stopped with everything finished, 1 failed while running, 2 wrong usage
/// or configuration, 3 stopped with work lost. All problems of the configuration are printed at
/// once. [`Server::on_reload`] gives the service new values while it runs.
///
/// # Errors
/// An error of `run` is printed as text and gives exit code 1, or 2 before it binds. A
/// [`ServeError`] about a setting gives 2.
///
/// # Panics
/// In debug builds, if an own flag has the name of a flag of the server.
///
/// # Examples
/// The struct of flags may be the handler itself:
///
/// ```no_run
/// use forebay::clap;
/// use forebay::{Handler, Reply, Request};
/// use std::process::ExitCode;
///
/// /// Greets whoever asks.
/// #[derive(clap::Args)]
/// #[command(version)]
/// struct Greeter {
///     /// What to say.
///     #[arg(long, default_value = "hello")]
///     greeting: String,
/// }
///
/// impl Handler for Greeter {
///     type Ticket = ();
///
///     async fn handle(&self, _: Request<'_>, reply: &mut Reply<'_>) {
///         let _ = reply.put(self.greeting.as_bytes()); // no longer than the request, or it is not sent
///     }
/// }
///
/// fn main() -> ExitCode {
///     forebay::main(&[("listen", "127.0.0.1:7000")], |greeter: Greeter, bind| bind()?.run(&greeter))
/// }
/// ```
pub fn main<A: Args, E: Into<Box<dyn Error>>>(
    defaults: &[(&str, &str)],
    run: impl FnOnce(A, Bind) -> Result<Report, E>,
) -> ExitCode {
    let mut args = env::args_os();
    let path = args.next().unwrap_or_else(|| "service".into());
    // Leaked once per process, because clap keeps names while it runs.
    let name = &*Path::new(&path).file_name().unwrap_or(&path).to_string_lossy().into_owned().leak();
    let args: Vec<OsString> = iter::once(path).chain(args).collect();
    let mut scope = Scope::of_service(defaults);
    let own = config::as_settings(A::augment_args(Command::new(name)));
    let command = with_server_flags(own.clone(), name, &scope);
    let is_later = [ClapKind::InvalidValue, ClapKind::ValueValidation, ClapKind::MissingRequiredArgument];
    if let Err(error) = parsed(command.clone(), &args, is_rare)
        && !is_later.contains(&error.kind())
    {
        return told(&error);
    }
    let own = OwnFlags::new(&own, command, args);
    let matches = own.texts();
    scope.own = Some(own);
    serve(name, &scope, &matches, |effective, bind| {
        let own = A::from_arg_matches(&effective.own.matches)?;
        run(own, bind).map_err(Into::into)
    })
}

/// Whether the help of a program leaves out `flag`: a setting of the server that few programs need.
fn is_rare(flag: &Arg) -> bool {
    let is_ours = Group::ALL.iter().any(|group| flag.get_help_heading() == Some(group.name()));
    is_ours && !["listen", "admin", "policy", "workers"].contains(&flag.get_id().as_str())
}

/// Binds the server of a program.
type Bind = Box<dyn FnOnce() -> Result<Server, ServeError>>;

/// Loads the configuration from `matches`, environment and file, and calls `run` with it and with a
/// function that binds the server. `name` is the program's name in error messages.
pub(super) fn serve(
    name: &str,
    scope: &Scope,
    matches: &ArgMatches,
    run: impl FnOnce(&Effective, Bind) -> Result<Report, Box<dyn Error>>,
) -> ExitCode {
    let effective = match config::load(scope, matches, env::vars_os()) {
        Ok(effective) => effective,
        Err(problems) => {
            output::complain(&format!("{name}: {problems}"));
            return ExitCode::from(USAGE);
        }
    };
    if matches.get_flag(config::CHECK_HEALTH) {
        return check_health(name, effective.config.admin);
    }
    let warn = |effective: &Effective| effective.unused().iter().for_each(|warning| tracing::warn!("{warning}"));
    let only_checks = matches.get_flag(config::CHECK_CONFIG);
    let set_log_level = (!only_checks).then(|| start_logging(name, &effective.config));
    warn(&effective);
    let is_bound = Rc::new(Cell::new(false));
    let bound = Rc::clone(&is_bound);
    let (taken, scope, matches) = (effective.clone(), scope.clone(), matches.clone());
    let bind = move || {
        bound.set(true);
        let Some(set_log_level) = set_log_level else {
            return Err(ServeError::Unavailable("--check-config binds nothing".to_owned()));
        };
        let load = move || config::load(&scope, &matches, env::vars_os()).inspect(warn);
        // Signals are caught before the addresses are printed, because a reader of that line may
        // send one.
        let server = Server::bind_or_inherit(&taken.config)?.stop_on_signals()?;
        Ok(server.exit_when_stuck().notify_supervisor().announced().reload_with(taken, load).follow(set_log_level))
    };
    let run = run(&effective, Box::new(bind));
    if only_checks && is_bound.get() {
        let memory = Memory::of(&effective.config);
        let unused: String = effective.unused().iter().map(|warning| format!("# warning: {warning}\n")).collect();
        return ended(print(&plain(&format!("{effective}\n# {memory}\n{unused}"))));
    }
    let code = exit_code(name, run.and_then(|report| summarised(&report)));
    output::flush_log();
    // What fails before, the configuration has asked for.
    ExitCode::from(if is_bound.get() { code } else { USAGE })
}

/// How long to wait for an answer about health. The endpoint answers within 0.1 s.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

/// Asks the server at `admin` for its health. Prints the answer, or why there is none, and returns
/// the exit code.
fn check_health(name: &str, admin: Option<SocketAddr>) -> ExitCode {
    let Some(admin) = admin.filter(|admin| admin.port() != 0) else {
        output::complain(&format!("{name}: --check-health needs admin; allowed: an address with a port, not 0"));
        return ExitCode::from(USAGE);
    };
    // For 0.0.0.0 and [::], Linux connects to this host.
    let why = match get(&admin.to_string(), "/healthz", HEALTH_TIMEOUT) {
        Ok((status, text)) if status.is_success() => return ended(print(&plain(&text))),
        Ok((status, text)) => format!("{status}: {}", text.trim_end()),
        Err(error) => error.to_string(),
    };
    output::complain(&format!("{name}: http://{admin}/healthz: {why}"));
    ExitCode::from(FAILED)
}

/// Prints the summary of the server and returns how it ended.
fn summarised(report: &Report) -> Result<Ended, Box<dyn Error>> {
    match (report.ended, output::print(&report.totals.summary())) {
        (Ended::Drained, Err(error)) => {
            Err(format!("the summary cannot be written to standard output: {error}").into())
        }
        (ended, _) => Ok(ended),
    }
}

/// The exit code for how the server ended. Prints the reason of a failure.
fn exit_code(name: &str, ended: Result<Ended, Box<dyn Error>>) -> u8 {
    let error = match ended {
        Ok(Ended::Drained) => return 0,
        Ok(Ended::Forced) => return WORK_LOST,
        Err(error) => error,
    };
    let (message, code) = match error.downcast_ref() {
        Some(ServeError::Bind { setting, address, source }) => {
            let (flag, advice) = (setting.trim_start_matches('-'), bind_advice(source.kind()));
            (format!("--{flag} {address}: {source}; {advice}"), USAGE)
        }
        Some(ServeError::Unavailable(_) | ServeError::HandOver { source: HandOverError::Refused(_), .. }) => {
            (error.to_string(), USAGE)
        }
        _ => (error.to_string(), FAILED),
    };
    output::complain(&format!("{name}: {message}"));
    code
}

/// Advice for an address that could not be bound.
const fn bind_advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::AddrInUse => "stop whatever holds this port, or choose another (port 0 takes a free one)",
        ErrorKind::AddrNotAvailable => "choose an address of this host, or 0.0.0.0 or [::] for all of them",
        ErrorKind::PermissionDenied => "choose a port above 1023, or grant CAP_NET_BIND_SERVICE",
        ErrorKind::InvalidInput => "choose an address of this host alone, or 0.0.0.0 or [::] for all of them",
        _ => "choose another address and port",
    }
}

/// Sends the log to standard error. Returns a function that sets the log level of a new
/// configuration.
fn start_logging(name: &str, config: &Config) -> Box<dyn Fn(&Config) + Send + Sync> {
    let log = match LogWriter::start() {
        Ok(log) => log,
        Err(error) => {
            output::complain(&format!("{name}: there will be no log: {error}"));
            return Box::new(|_| ());
        }
    };
    let lines = fmt::layer()
        .with_writer(move || log.clone())
        // Another crate of the program may have enabled colours for all users of the layer.
        .with_ansi(false)
        // Otherwise a lost event would be reported to standard error with a panic. A server with a
        // closed standard error could then never stop.
        .log_internal_errors(false);
    let directives = env::var("RUST_LOG").unwrap_or_default();
    let (chosen, ignored) = chosen(&directives);
    let by_environment = chosen.is_some();
    let (shown, handle) = reload::Layer::new(chosen.unwrap_or_else(|| from(config.log_level)));
    let events = tracing_subscriber::registry().with(shown);
    // An error means that the surrounding program has set its own subscriber.
    let _ = match config.log_format {
        LogFormat::Text => events.with(lines).try_init(),
        LogFormat::Json => events.with(lines.json()).try_init(),
    };
    for directive in ignored {
        tracing::warn!(directive, "RUST_LOG: neither LEVEL nor TARGET=LEVEL, ignored");
    }
    Box::new(move |config| {
        if !by_environment {
            // Fails if the surrounding program's subscriber is in use.
            let _ = handle.reload(from(config.log_level));
        }
    })
}

/// Selects the events of `level` and above.
fn from(level: LogLevel) -> Targets {
    Targets::new().with_default(level.name().parse::<LevelFilter>().expect("tracing has the same levels"))
}

/// Selects the events of `directives`, such as `warn,forebay::server=debug`; `None` if none is
/// valid. Also returns the invalid directives.
fn chosen(directives: &str) -> (Option<Targets>, Vec<&str>) {
    let written = directives.split(',').map(str::trim).filter(|directive| !directive.is_empty());
    let (valid, invalid): (Vec<&str>, Vec<&str>) = written.partition(|directive| directive.parse::<Targets>().is_ok());
    let chosen = valid.join(",").parse().ok().filter(|_| !valid.is_empty());
    (chosen, invalid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    // Does each ending have the exit code that the help states?
    #[test]
    fn ends_have_their_exit_codes() {
        let failed = |error: ServeError| exit_code("x", Err(error.into()));
        assert_eq!(exit_code("x", Ok(Ended::Drained)), 0);
        assert_eq!(exit_code("x", Ok(Ended::Forced)), 3);
        let source = io::Error::from(ErrorKind::AddrInUse);
        let address = ([127, 0, 0, 1], 9_000).into();
        assert_eq!(failed(ServeError::Admin("it ended".to_owned())), 1);
        assert_eq!(failed(ServeError::Unavailable("--workers 9: too many".to_owned())), 2);
        assert_eq!(failed(ServeError::Bind { setting: "listen", address, source }), 2);
        assert_eq!(exit_code("x", Err("of the program".into())), 1);
    }

    // Does every failure to bind come with advice?
    #[test]
    fn advice_fits_the_failure() {
        assert!(bind_advice(ErrorKind::AddrInUse).contains("stop whatever holds this port"));
        assert!(bind_advice(ErrorKind::PermissionDenied).contains("1023"));
        assert!(!bind_advice(ErrorKind::Other).is_empty());
    }
}

#[cfg(test)]
mod log_tests {
    use super::*;
    use tracing::Level;

    // Does RUST_LOG choose by target and level? If nothing in it is valid, does the setting apply?
    // Are invalid directives returned?
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
