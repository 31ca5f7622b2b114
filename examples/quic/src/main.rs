//! The `forebay-quic` binary: serves until a signal ends it.

use forebay_quic::arguments::Arguments;
use std::error::Error;
use std::process::ExitCode;

fn main() -> ExitCode {
    forebay::main(
        &[("listen", "127.0.0.1:4433"), ("io", "gro"), ("datagram-max", "16384")],
        |arguments: Arguments, bind| -> Result<_, Box<dyn Error>> {
            let service = arguments.service().map_err(|error| format!("{error:#}"))?;
            let server = service.counts.shown(bind()?)?;
            Ok(server.run(&service)?)
        },
    )
}
