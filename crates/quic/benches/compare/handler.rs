//! The requests of the application, served by a handler behind both doors.

use super::rival::burn;
use forebay::fate::Malformed;
use forebay::time::Nanos;
use forebay::{Admitted, Arrival, Handler, Rejected, Reply, Request, checkpoint};
use std::convert::Infallible;
use std::process::ExitCode;

/// The variable with which this program is this server.
pub(crate) const VARIABLE: &str = "COMPARE_HANDLER";

/// Its settings beside the certificate.
pub(crate) const SETTINGS: [&str; 6] = ["--listen", "127.0.0.1:0", "--quic", "127.0.0.1:0", "--alpn", "forebay-echo"];

/// Answers `r`, a length and microseconds with zeros of this length, after computing for this time.
struct Computes;

impl Handler for Computes {
    /// The length, and the microseconds.
    type Ticket = [u32; 2];

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<[u32; 2]>, Rejected<[u32; 2]>> {
        let [b'r', l3, l2, l1, l0, m3, m2, m1, m0] = *arrival.bytes() else {
            return Err(Rejected::Malformed(Malformed::Other));
        };
        Ok(Admitted::new([[l3, l2, l1, l0], [m3, m2, m1, m0]].map(u32::from_be_bytes)))
    }

    async fn handle(&self, request: Request<'_, [u32; 2]>, reply: &mut Reply<'_>) {
        let [length, micros] = *request.ticket();
        let mut left = Nanos::from_micros(micros.into());
        while left > Nanos::ZERO {
            left = left.minus(burn(left));
            if left > Nanos::ZERO {
                checkpoint().await;
            }
        }
        let length = (length as usize).min(reply.room());
        reply.spare_mut()[..length].fill(0);
        reply.advance(length);
    }
}

pub(crate) fn serve() -> ExitCode {
    forebay_quic::main(&[], |()| Ok::<_, Infallible>(Computes))
}
