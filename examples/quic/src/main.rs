//! The `forebay-quic` binary: serves until a signal ends it.

use forebay_quic::arguments::Arguments;
use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

fn main() -> ExitCode {
    forebay::main(
        &[("listen", "127.0.0.1:4433"), ("io", "gro"), ("datagram-max", "16384")],
        |arguments: Arguments, bind| -> Result<_, Box<dyn Error>> {
            let service = arguments.service().map_err(|error| format!("{error:#}"))?;
            let [connections, handshakes] = [&service.counts.connections, &service.counts.handshakes].map(Clone::clone);
            let retries = service.counts.retries.clone();
            // Ordering: relaxed, counts.
            let server = bind()?
                .gauge("quic_connections", "Connections", move || connections.load(Ordering::Relaxed) as f64)?
                .gauge("quic_handshakes", "Handshakes in progress", move || handshakes.load(Ordering::Relaxed) as f64)?
                .counter("quic_retries", "Clients asked to prove their address", move || {
                    retries.load(Ordering::Relaxed) as f64
                })?;
            Ok(server.run(&service)?)
        },
    )
}
