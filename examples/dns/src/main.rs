//! The `forebay-dns` binary: serves the zones of its arguments until a signal ends it.

use anyhow::Context;
use clap::Parser;
use forebay::output::{LogWriter, complain, flush_log, print};
use forebay::server::Server;
use forebay_dns::arguments::{Arguments, Plan};
use forebay_dns::quic::OverQuic;
use forebay_dns::service::Service;
use forebay_dns::tcp::TcpServer;
use forebay_dns::zones::{Source, Zones};
use forebay_quic::tls::{self, Limits};
use forebay_quic::{Bounds, Doors, Quic};
use std::fmt::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Exit code for wrong arguments, also for wrong files that they name.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    start_logging();
    let code = match Arguments::parse().plan() {
        Ok(plan) => serve(plan),
        Err(error) => {
            complain(&format!("forebay-dns: {error:#}"));
            return ExitCode::from(USAGE);
        }
    };
    flush_log();
    code.unwrap_or_else(|error| {
        complain(&format!("forebay-dns: {error:#}"));
        ExitCode::FAILURE
    })
}

fn serve(plan: Plan) -> anyhow::Result<ExitCode> {
    let Plan { config, sources, made, version, service, connections, quic, check } = plan;
    let about = describe(&sources, &service.zones.load());
    if check {
        print(&about)?;
        return Ok(ExitCode::SUCCESS);
    }
    let service = Arc::new(service);
    let reloaded = Arc::clone(&service);
    let (certificate, door) = quic.unzip();
    let presented = certificate.clone();
    let server = Server::bind(&config)?
        .stop_on_signals()?
        .counter("dns_signatures_made", "Signatures that were not known and had to be made", &made)?
        .counter("dns_tcp_messages", "Messages that came over TCP", &service.tcp_messages)?
        .on_reload(move |(): ()| {
            if let Some((certificate, door)) = presented.as_ref().zip(door.as_ref()) {
                door.read_again(certificate).map_err(|error| format!("{error:#}"))?;
            }
            reload(&sources, version.as_deref(), &reloaded)
        });
    // The last address is that of QUIC.
    let (plain, over_quic) =
        server.udp_addresses().split_at(server.udp_addresses().len() - usize::from(certificate.is_some()));
    let tcp = TcpServer::start(Arc::clone(&service), server.spawner(), plain, connections).context("TCP")?;
    let announcement = server.announcement().replacen("udp", "udp and tcp", 1);
    let announcement =
        over_quic.iter().fold(announcement, |text, at| text.replace(&format!(",{at}"), &format!(", quic {at}")));
    // It does not matter if no program reads the output.
    let _ = print(&format!("{about}{announcement}\n"));
    let report = match (certificate, over_quic) {
        (Some(certificate), &[at]) => {
            let application = Arc::new(OverQuic::new(Arc::clone(&service)));
            let config = tls::config(&certificate, None, &*application, &Limits::default())?;
            let over_quic = Quic::new(application, config, Bounds::default());
            let server = over_quic.counts.shown(server)?;
            server.run(&Doors::new(service, over_quic, at))?
        }
        _ => server.run(&*service)?,
    };
    drop(tcp);
    print(&report.totals.summary())?;
    Ok(ExitCode::SUCCESS)
}

/// The zones in one line each, after the DS records that their parents need.
fn describe(sources: &[Source], zones: &Zones) -> String {
    let mut text = String::new();
    for Source { apex, signer, .. } in sources {
        if let Some(signer) = signer {
            let _ = writeln!(text, "{}\n{}", signer.key().dnskey_record(apex), signer.key().ds_record(apex));
        }
    }
    for zone in zones.iter() {
        let _ = writeln!(text, "{}", zone.summary());
    }
    text
}

/// Loads all files again. A question under way is answered from the zones with which it began.
fn reload(sources: &[Source], version: Option<&str>, service: &Service) -> Result<(), String> {
    let zones = Zones::load(sources).map_err(|error| format!("{error:#}"))?.with_version(version);
    zones.iter().for_each(|zone| tracing::info!("loaded {}", zone.summary()));
    service.zones.store(Arc::new(zones));
    Ok(())
}

fn start_logging() {
    let Ok(log) = LogWriter::start() else { return };
    tracing_subscriber::fmt().with_writer(move || log.clone()).with_ansi(false).log_internal_errors(false).init();
}
