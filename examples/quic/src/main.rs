//! The `forebay-quic` binary: serves until a signal ends it.

use forebay_quic::arguments::Arguments;
use forebay_quic::service::Counts;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    forebay::main(
        &[("listen", "127.0.0.1:4433"), ("io", "gro"), ("datagram-max", "16384")],
        |arguments: Arguments, bind| -> Result<_, Box<dyn Error>> {
            let service = arguments.service().map_err(|error| format!("{error:#}"))?;
            let Counts { connections, handshakes, retries } = &service.counts;
            let server = bind()?
                .gauge("quic_connections", "Connections", &connections.shown)?
                .gauge("quic_handshakes", "Handshakes in progress", &handshakes.shown)?
                .counter("quic_retries", "Clients asked to prove their address", retries)?;
            Ok(server.run(&service)?)
        },
    )
}
