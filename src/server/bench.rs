//! The server of the bench protocol: `forebay serve`.

use super::emulated::run_emulated;
use super::error::ServeError;
use super::life::report::Report;
use super::serve::Server;
use crate::config::{Burn, Config, HandlerName};
use crate::handler::builtin::{Bench, Burner, Echo, Spin, Work};

/// Runs `server` with the handler of its configuration.
///
/// # Errors
/// See [`Server::run`].
pub(crate) fn run_bench(server: Server) -> Result<Report, ServeError> {
    let config = &server.start.bound.config.clone();
    match config.handler {
        HandlerName::Echo => run(server, Echo),
        HandlerName::Spin => run(server, Spin::new(burner(config), config.time_scale)),
    }
}

fn run(server: Server, work: impl Work) -> Result<Report, ServeError> {
    let scaled = |config: &Config| config.scaled(config.cost_cap);
    let bench = Bench::new(work, scaled(&server.start.bound.config));
    let cost_cap = bench.cost_cap();
    let server = server.follow(move |config| cost_cap.store(scaled(config)));
    match server.start.bound.config.burn {
        Burn::Cpu => server.run(&bench),
        Burn::Sleep => run_emulated(server, &bench),
    }
}

fn burner(config: &Config) -> Burner {
    match config.burn {
        Burn::Cpu => Burner::calibrated(),
        Burn::Sleep => Burner::Sleep,
    }
}
