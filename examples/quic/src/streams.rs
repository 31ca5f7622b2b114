//! The application: the first byte of a stream says what the client asks for.
//!
//! | first byte | the client sends | the server answers |
//! |---|---|---|
//! | `e` | any bytes | the same bytes |
//! | `r` | a length and microseconds, four bytes each | this number of bytes, after computing for this time |
//! | `u` | any bytes | their number, in eight bytes |
//!
//! Numbers are big-endian. The answers to `r` and `u` begin once the client has finished its side.
//! Whatever else comes is reset with [`REFUSED`].

use crate::application::{Advanced, Application, Around, Got, REFUSED, Streams, code_of, read, reset};
use bytes::{Buf, Bytes};
use forebay::fate::Fate;
use forebay::time::{Nanos, clock};
use forebay::{Admitted, checkpoint};
use quinn_proto::{Connection, Dir, StreamEvent, StreamId};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

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
    type Streams = EchoStreams;

    fn connect(&self) -> EchoStreams {
        EchoStreams { compute_here: self.compute_here, ..EchoStreams::default() }
    }
}

/// The open streams of a connection, as many as the client may open.
#[derive(Default)]
pub struct EchoStreams {
    compute_here: Nanos,
    open: HashMap<StreamId, Stream>,
    /// The streams that may read or write, each once. A stream leaves once it has done so.
    ready: VecDeque<StreamId>,
}

#[derive(Default)]
struct Stream {
    /// The first byte of the stream, and after `r` two numbers.
    head: Vec<u8>,
    /// The number of bytes after `u`.
    counted: u64,
    /// The bytes to send next.
    held: Bytes,
    /// How many zeros to send after them.
    zeros: usize,
    /// How long it computes before it answers.
    computes: Nanos,
    /// Present while another request computes for it: its key, and what ends it early once it is
    /// dropped.
    away: Option<(u64, Arc<()>)>,
    /// Whether the client has finished its side.
    ended: bool,
}

/// What a stream does next.
enum Next {
    Waits,
    /// Another request is to compute for this long.
    Computes(Nanos),
    Ends,
    Refused,
}

impl EchoStreams {
    /// The stream for which the request of this key computes.
    fn stream_of(&self, key: u64) -> Option<StreamId> {
        let is_away = |stream: &Stream| stream.away.as_ref().is_some_and(|(its, _)| *its == key);
        self.open.iter().find_map(|(id, stream)| is_away(stream).then_some(*id))
    }

    /// Lets a stream read and write, and compute for up to `here`, which it lowers. Returns how
    /// long another request must compute for it.
    async fn go_on(&mut self, connection: &mut Connection, id: StreamId, here: &mut Nanos) -> Option<Nanos> {
        let stream = self.open.get_mut(&id).filter(|stream| stream.away.is_none())?;
        let next = stream.advance(connection, id, here).await;
        // If the client has reset or stopped a stream, it is already partly closed.
        match next {
            Next::Waits => return None,
            Next::Computes(rest) => return Some(rest),
            Next::Ends => _ = connection.send_stream(id).finish(),
            Next::Refused => reset(connection, id, REFUSED),
        }
        self.open.remove(&id);
        None
    }
}

impl Streams for EchoStreams {
    type Made = ();

    fn here(&self) -> Nanos {
        self.compute_here
    }

    fn note(&mut self, connection: &mut Connection, event: &StreamEvent) {
        match *event {
            StreamEvent::Opened { .. } => {
                while let Some(id) = connection.streams().accept(Dir::Bi) {
                    self.open.insert(id, Stream::default());
                    self.ready.push_back(id);
                }
            }
            StreamEvent::Readable { id } | StreamEvent::Writable { id } if !self.ready.contains(&id) => {
                self.ready.push_back(id);
            }
            StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. } => _ = self.open.remove(&id),
            StreamEvent::Readable { .. } | StreamEvent::Writable { .. } | StreamEvent::Available { .. } => {}
        }
    }

    /// A light request costs no more than its work, and heavy ones hold up no packet for long.
    async fn advance(&mut self, connection: &mut Connection, around: &mut Around<'_, '_, ()>) -> Advanced {
        let Some(id) = self.ready.front().copied() else { return Advanced::All };
        let rest = self.go_on(connection, id, &mut around.here).await;
        let Some((rest, stream)) = rest.zip(self.open.get_mut(&id)) else {
            self.ready.pop_front();
            return Advanced::One;
        };
        let wanted = Arc::new(());
        let admitted = Admitted::new(()).class(STREAM).validated(true);
        match around.begin(admitted, compute(rest, Arc::downgrade(&wanted))) {
            Ok(key) => {
                stream.away = Some((key, wanted));
                self.ready.pop_front();
                Advanced::One
            }
            // The stream goes next, and computes a little more itself.
            Err(_) => Advanced::Full,
        }
    }

    fn made(&mut self, key: u64, (): ()) {
        let id = self.stream_of(key);
        if let Some((id, stream)) = id.and_then(|id| Some((id, self.open.get_mut(&id)?))) {
            (stream.computes, stream.away) = (Nanos::ZERO, None);
            self.ready.push_back(id);
        }
    }

    fn unfinished(&mut self, connection: &mut Connection, key: u64, fate: Fate) {
        if let Some(id) = self.stream_of(key) {
            self.open.remove(&id);
            reset(connection, id, code_of(fate));
        }
    }

    fn clear(&mut self) {
        self.open.clear();
        self.ready.clear();
    }
}

impl Stream {
    /// Reads and writes until the stream must wait. It reads only after it has written all that it
    /// holds, so the client's window bounds its memory.
    async fn advance(&mut self, connection: &mut Connection, id: StreamId, here: &mut Nanos) -> Next {
        loop {
            while self.computes > Nanos::ZERO {
                if *here == Nanos::ZERO {
                    return Next::Computes(self.computes);
                }
                let step = burn(self.computes.min(*here));
                (*here, self.computes) = (here.minus(step), self.computes.minus(step));
                // Not at the end: an event that waits behind heavy work holds up its shard.
                if self.computes.min(*here) > Nanos::ZERO {
                    checkpoint().await;
                }
            }
            while !self.held.is_empty() || self.zeros > 0 {
                if self.held.is_empty() {
                    self.held = Bytes::from_static(&ZEROS[..self.zeros.min(ZEROS.len())]);
                    self.zeros -= self.held.len();
                }
                match connection.send_stream(id).write(&self.held) {
                    Ok(written) => self.held.advance(written),
                    Err(quinn_proto::WriteError::Blocked) => return Next::Waits,
                    Err(_) => return Next::Refused,
                }
            }
            if self.ended {
                return Next::Ends;
            }
            match read(connection, id, if self.head.is_empty() { 1 } else { usize::MAX }) {
                Got::Nothing => return Next::Waits,
                Got::Reset => return Next::Refused,
                Got::Bytes(bytes) => {
                    if !self.take(bytes) {
                        return Next::Refused;
                    }
                }
                Got::End => {
                    if !self.end() {
                        return Next::Refused;
                    }
                }
            }
        }
    }

    /// Takes bytes that have come; returns false if they are no valid request.
    fn take(&mut self, bytes: Bytes) -> bool {
        match self.head.first() {
            Some(b'e') => self.held = bytes,
            Some(b'u') => self.counted += bytes.len() as u64,
            Some(_) if self.head.len() + bytes.len() <= 9 => self.head.extend_from_slice(&bytes),
            None if matches!(bytes[0], b'e' | b'r' | b'u') => self.head.push(bytes[0]),
            _ => return false,
        }
        true
    }

    /// Makes the answer, because the whole request has come; returns false if it is not valid.
    fn end(&mut self) -> bool {
        self.ended = true;
        match *self.head {
            [b'e'] => {}
            [b'u'] => self.held = Bytes::copy_from_slice(&self.counted.to_be_bytes()),
            [b'r', l3, l2, l1, l0, m3, m2, m1, m0] => {
                let micros = u32::from_be_bytes([m3, m2, m1, m0]);
                let length = Nanos::from_micros(micros.into());
                if length > BURN_MAX {
                    return false;
                }
                self.computes = length;
                self.zeros = u32::from_be_bytes([l3, l2, l1, l0]) as usize;
            }
            _ => return false,
        }
        true
    }
}

/// Computes until the end, or until the stream no longer waits.
async fn compute(mut left: Nanos, wanted: Weak<()>) {
    while left > Nanos::ZERO && wanted.strong_count() > 0 {
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
