//! The `forebay-quic` binary: serves until a signal ends it.

use clap::Parser;
use forebay::output::{LogWriter, complain, flush_log, print};
use forebay::server::Server;
use forebay_quic::arguments::Arguments;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

/// Exit code for wrong arguments, files among them.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    if let Ok(log) = LogWriter::start() {
        tracing_subscriber::fmt().with_writer(move || log.clone()).with_ansi(false).log_internal_errors(false).init();
    }
    let code = match Arguments::parse().plan() {
        Ok((config, service)) => serve(&config, &service),
        Err(error) => {
            complain(&format!("forebay-quic: {error:#}"));
            return ExitCode::from(USAGE);
        }
    };
    flush_log();
    code.map_or_else(
        |error| {
            complain(&format!("forebay-quic: {error:#}"));
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}

fn serve(config: &forebay::config::Config, service: &forebay_quic::service::Quic) -> anyhow::Result<()> {
    let [connections, handshakes] = [&service.counts.connections, &service.counts.handshakes].map(Clone::clone);
    let retries = service.counts.retries.clone();
    // Ordering: relaxed, counts.
    let server = Server::bind(config)?
        .stop_on_signals()?
        .gauge("quic_connections", "Connections", move || connections.load(Ordering::Relaxed) as f64)?
        .gauge("quic_handshakes", "Handshakes in progress", move || handshakes.load(Ordering::Relaxed) as f64)?
        .counter("quic_retries", "Clients asked to prove their address", move || {
            retries.load(Ordering::Relaxed) as f64
        })?;
    let announcement = server.announcement();
    let report = server.run_announced(service, || {
        // Where nothing reads the output, there is nothing to say.
        let _ = print(&format!("{announcement}\n"));
    })?;
    print(&forebay::metrics::summary(&report.totals))?;
    Ok(())
}
