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

use bytes::{Buf, Bytes};
use forebay::checkpoint;
use forebay::time::{Nanos, clock};
use quinn_proto::{Connection, Dir, ReadError, StreamEvent, StreamId, VarInt};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The error code of a stream with an unknown or invalid request.
pub const REFUSED: u32 = 1;

/// The error code of a stream whose computation was broken off.
pub const BROKEN_OFF: u32 = 2;

/// The longest computation that a request may ask for.
const BURN_MAX: Nanos = Nanos::from_millis(100);

/// After this time, a connection tries again to begin what found no room.
pub const AGAIN: Duration = Duration::from_millis(1);

/// The time between two checkpoints of a computation.
const BURN_STEP: Nanos = Nanos::from_micros(20);

/// The content of an answer to `r`.
static ZEROS: [u8; 16_384] = [0; 16_384];

/// The open streams of a connection, as many as the client may open.
#[derive(Default)]
pub struct Streams {
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
    /// Present while another request computes for it; that ends early once this is dropped.
    away: Option<Arc<()>>,
    /// Whether the client has finished its side.
    ended: bool,
}

/// How far the streams of a connection have come.
pub enum Advanced {
    /// One of them has done what it could.
    One,
    /// None may read or write.
    All,
    /// One waits for this computation, which another request is to do.
    Computes(Computation),
}

/// What is left of a stream's computation.
pub struct Computation {
    /// The stream.
    pub id: StreamId,
    rest: Nanos,
    /// Whether the stream still waits for it.
    wanted: Weak<()>,
}

/// The result of reading from a stream.
enum Got {
    Bytes(Bytes),
    Nothing,
    End,
    Reset,
}

/// What a stream does next.
enum Next {
    Waits,
    /// Another request is to compute for this long.
    Computes(Nanos),
    Ends,
    Refused,
}

impl Streams {
    /// Notes an event of a stream of `connection`.
    pub fn note(&mut self, connection: &mut Connection, event: &StreamEvent) {
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

    /// Lets the next stream read and write, as far as it may. If this is dropped half-way, the next
    /// call continues it. It computes for up to `here`, and lowers it. So a light request costs no
    /// more than its work, and heavy ones hold up no packet for long.
    pub async fn advance_one(&mut self, connection: &mut Connection, here: &mut Nanos) -> Advanced {
        let Some(id) = self.ready.front().copied() else { return Advanced::All };
        let rest = self.advance(connection, id, here).await;
        self.ready.pop_front();
        let Some((rest, stream)) = rest.zip(self.open.get_mut(&id)) else { return Advanced::One };
        let wanted = Arc::downgrade(stream.away.insert(Arc::default()));
        Advanced::Computes(Computation { id, rest, wanted })
    }

    /// Notes that there is no room for the computation of a stream: the stream goes next, and
    /// computes a little more itself.
    pub fn stays(&mut self, id: StreamId) {
        if let Some(stream) = self.open.get_mut(&id) {
            stream.away = None;
            self.ready.push_front(id);
        }
    }

    /// Notes that the computation for a stream has ended.
    pub fn computed(&mut self, id: StreamId) {
        if let Some(stream) = self.open.get_mut(&id) {
            (stream.computes, stream.away) = (Nanos::ZERO, None);
            self.ready.push_back(id);
        }
    }

    /// Resets the streams whose computations were broken off. Returns whether there are any.
    pub fn reset_lost(&mut self, connection: &mut Connection) -> bool {
        let is_lost = |stream: &Stream| stream.away.as_ref().is_some_and(|away| Arc::weak_count(away) == 0);
        let mut lost = self.open.extract_if(|_, stream| is_lost(stream)).map(|(id, _)| id).peekable();
        let any = lost.peek().is_some();
        lost.for_each(|id| _ = connection.send_stream(id).reset(BROKEN_OFF.into()));
        any
    }

    /// Forgets all streams, because the connection is lost.
    pub fn clear(&mut self) {
        *self = Streams::default();
    }

    /// Lets a stream read and write. Returns how long another request must compute for it.
    async fn advance(&mut self, connection: &mut Connection, id: StreamId, here: &mut Nanos) -> Option<Nanos> {
        let stream = self.open.get_mut(&id).filter(|stream| stream.away.is_none())?;
        let next = stream.advance(connection, id, here).await;
        // If the client has reset or stopped a stream, it is already partly closed.
        match next {
            Next::Waits => return None,
            Next::Computes(rest) => return Some(rest),
            Next::Ends => _ = connection.send_stream(id).finish(),
            Next::Refused => {
                let _ = connection.recv_stream(id).stop(REFUSED.into());
                let _ = connection.send_stream(id).reset(REFUSED.into());
            }
        }
        self.open.remove(&id);
        None
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

fn read(connection: &mut Connection, id: StreamId, most: usize) -> Got {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Got::Reset };
    let got = match chunks.next(most) {
        Ok(Some(chunk)) => Got::Bytes(chunk.bytes),
        Ok(None) => Got::End,
        Err(ReadError::Blocked) => Got::Nothing,
        Err(ReadError::Reset(VarInt { .. })) => Got::Reset,
    };
    // The result does not matter: after each event, all packets are sent.
    let _ = chunks.finalize();
    got
}

impl Computation {
    /// Computes until the end, or until the stream no longer waits.
    pub async fn run(self) {
        let mut left = self.rest;
        while left > Nanos::ZERO && self.wanted.strong_count() > 0 {
            left = left.minus(burn(left));
            checkpoint().await;
        }
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
