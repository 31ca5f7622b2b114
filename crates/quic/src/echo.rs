//! The application of the program: the first byte of a stream says what the client asks for.
//!
//! | first byte | the client sends | the server answers |
//! |---|---|---|
//! | `e` | any bytes | the same bytes |
//! | `r` | a length and microseconds, four bytes each | this number of bytes, after computing for this time |
//! | `u` | any bytes | their number, in eight bytes |
//!
//! Numbers are big-endian. The answers to `r` and `u` begin once the client has finished its side.
//! Whatever else comes is reset with [`REFUSED`].

use crate::application::{Application, REFUSED, code_of};
use crate::by_stream::{Streams, serve_streams};
use crate::connection::{Connection, RecvStream, SendStream, Unserved};
use bytes::Bytes;
use forebay::time::{Nanos, clock};
use forebay::{Admitted, checkpoint};
use std::sync::Arc;

/// The application protocol.
pub const PROTOCOL: &str = "forebay-echo";

/// The class of requests that compute for streams.
const STREAM: u8 = 2;

/// The longest computation that a request may ask for.
const BURN_MAX: Nanos = Nanos::from_millis(100);

/// The time between two checkpoints of a computation.
const BURN_STEP: Nanos = Nanos::from_micros(20);

/// The content of an answer to `r`.
static ZEROS: [u8; 16_384] = [0; 16_384];

/// The application.
#[derive(Clone, Copy, Debug)]
pub struct Echo {
    /// For how long the event of a packet computes for streams.
    pub compute_here: Nanos,
}

impl Application for Echo {
    fn protocols(&self) -> Vec<String> {
        vec![PROTOCOL.into()]
    }

    fn here(&self) -> Nanos {
        self.compute_here
    }

    async fn serve(self: Arc<Self>, connection: Connection) {
        serve_streams(self, connection).await;
    }
}

impl Streams for Echo {
    async fn answer(
        &self,
        connection: &Connection,
        send: &mut SendStream,
        receive: &mut RecvStream,
    ) -> Result<(), u32> {
        let mut kind = [0];
        receive.read_exact(&mut kind).await.map_err(refused)?;
        match kind[0] {
            // It reads only after it has written, so the client's window bounds its memory.
            b'e' => {
                while let Some(bytes) = receive.read_chunk(usize::MAX).await.map_err(refused)? {
                    send.write_chunk(bytes).await.map_err(refused)?;
                }
            }
            b'u' => {
                let mut count = 0;
                while let Some(bytes) = receive.read_chunk(usize::MAX).await.map_err(refused)? {
                    count += bytes.len() as u64;
                }
                send.write_all(&count.to_be_bytes()).await.map_err(refused)?;
            }
            b'r' => {
                let head = receive.read_to_end(8).await.map_err(refused)?;
                let [l3, l2, l1, l0, m3, m2, m1, m0] = *head else { return Err(REFUSED) };
                let [length, micros] = [[l3, l2, l1, l0], [m3, m2, m1, m0]].map(u32::from_be_bytes);
                let time = Some(Nanos::from_micros(micros.into())).filter(|time| *time <= BURN_MAX).ok_or(REFUSED)?;
                send.unless_stopped(spend(connection, time)).await.ok_or(REFUSED)??;
                let mut left = length as usize;
                while left > 0 {
                    let part = Bytes::from_static(&ZEROS[..left.min(ZEROS.len())]);
                    left -= part.len();
                    send.write_chunk(part).await.map_err(refused)?;
                }
            }
            _ => return Err(REFUSED),
        }
        Ok(())
    }
}

/// The code of a stream that can no longer be read or written.
fn refused<E>(_: E) -> u32 {
    REFUSED
}

/// Computes for this time. A light request costs no more than its work, and a heavy one holds up no
/// packet for long.
async fn spend(connection: &Connection, mut left: Nanos) -> Result<(), u32> {
    loop {
        let here = connection.here().min(left);
        if here == Nanos::ZERO {
            break;
        }
        left = left.minus(burn(here));
    }
    if left == Nanos::ZERO {
        return Ok(());
    }
    let admitted = Admitted::new(()).class(STREAM).validated(true);
    connection.begin(admitted, compute(left)).await.map_err(|unserved| match unserved {
        Unserved::As(fate) => code_of(fate),
        Unserved::ConnectionLost(_) => REFUSED,
    })
}

async fn compute(mut left: Nanos) {
    while left > Nanos::ZERO {
        left = left.minus(burn(left));
        checkpoint().await;
    }
}

/// Computes for one step, of a computation of this length. Returns the length of the step.
fn burn(length: Nanos) -> Nanos {
    let (began, step) = (clock::now(), length.min(BURN_STEP));
    while clock::now().minus(began) < step {
        std::hint::spin_loop();
    }
    step
}
