//! The server of the bench protocol: `forebay serve`.

use super::{Ended, Report, ServeError, Server};
use crate::config::{Burn, Config, Effective, HandlerName, LogLevel, Problems};
use crate::handler::builtin::{Bench, Burner, Digest, Echo, Forking, PacketChain, Spin, Work};
use crate::metrics::summary;
use crate::output;

/// How the bench server reads its configuration again.
pub(crate) struct Reloading {
    /// Reads it.
    pub(crate) load: Box<dyn Fn() -> Result<Effective, Problems> + Send + Sync>,
    /// Takes a level of the log.
    pub(crate) set_log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

/// Runs the bench server that `effective` describes until SIGTERM or SIGINT. Writes to standard output: one line with the
/// bound addresses when all of its threads run, and a summary at the end. If the first line cannot be written, the
/// server serves all the same.
///
/// # Errors
/// See [`ServeError`].
pub(crate) fn serve(effective: &Effective, reloading: Reloading) -> Result<Ended, ServeError> {
    let config = &effective.config;
    // Signals are caught before the addresses are printed: a reader of that line may send one.
    let server = Server::bind_or_inherit(config)?.stop_on_signals()?.exit_when_stuck().notify_supervisor();
    let bench = BenchServer { server, effective, reloading };
    let report = match config.handler {
        HandlerName::Echo => bench.run(Echo),
        HandlerName::Spin => bench.run(Spin::new(burner(config), config.time_scale)),
        HandlerName::Fork => {
            bench.run(Forking::new(burner(config), config.time_scale, config.slice_scaled(), config.workers))
        }
        HandlerName::Digest => bench.run(Digest),
        HandlerName::PacketChain => bench.run(PacketChain::new(burner(config))),
    }?;
    match (report.ended, output::print(&summary(&report.totals))) {
        (Ended::Drained, Err(error)) => Err(ServeError::Output(error)),
        (ended, _) => Ok(ended),
    }
}

struct BenchServer<'a> {
    server: Server,
    effective: &'a Effective,
    reloading: Reloading,
}

impl BenchServer<'_> {
    fn run(self, work: impl Work) -> Result<Report, ServeError> {
        let BenchServer { server, effective, reloading: Reloading { load, set_log_level } } = self;
        let line = server.announcement() + "\n";
        let serving = || {
            if let Err(error) = output::print(&line) {
                tracing::error!(%error, "standard output does not take the line that says where the server listens");
            }
        };
        let bench = Bench::new(work, effective.config.cost_cap_scaled());
        let cost_cap = bench.cost_cap();
        let apply = move |config: &Config| {
            cost_cap.set(config.cost_cap_scaled());
            set_log_level(config.log_level);
        };
        server.reload_with(effective.clone(), load, apply).run_announced(&bench, serving)
    }
}

fn burner(config: &Config) -> Burner {
    match config.burn {
        Burn::Cpu => Burner::calibrated(),
        Burn::Sleep => Burner::Sleep,
    }
}
