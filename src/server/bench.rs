//! The server of the bench protocol: `forebay serve`.

use super::emulated::run_emulated;
use super::error::ServeError;
use super::life::report::Report;
use super::serve::Server;
use crate::config::{Burn, Config, HandlerName};
use crate::handler::Reply;
use crate::handler::builtin::{Bench, BenchWork, Burner, Echo, Forking, Order, Spin};

/// Runs `server` with the handler of its configuration.
///
/// # Errors
/// See [`Server::run`].
pub(crate) fn run_bench(server: Server) -> Result<Report, ServeError> {
    let config = &server.start.bound.config.clone();
    match config.handler {
        HandlerName::Echo => run(server, Simple::Echo),
        HandlerName::Spin => run(server, Simple::Spin(Spin::new(burner(config), config.time_scale))),
        HandlerName::Fork => {
            run(server, Forking::new(burner(config), config.time_scale, config.scaled(config.slice), config.workers))
        }
    }
}

/// Two kinds of work in one type, so that the engine is compiled once for both.
enum Simple {
    Echo,
    Spin(Spin),
}

impl BenchWork for Simple {
    async fn work(&self, order: Order<'_>, reply: &mut Reply<'_>) {
        match self {
            Simple::Echo => Echo.work(order, reply).await,
            Simple::Spin(spin) => spin.work(order, reply).await,
        }
    }
}

fn run(server: Server, work: impl BenchWork) -> Result<Report, ServeError> {
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
