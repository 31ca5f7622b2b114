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

/// The error code of a stream with an unknown or invalid request.
pub const REFUSED: u32 = 1;

/// The longest computation that a request may ask for. Meanwhile its shard waits.
const BURN_MAX: Nanos = Nanos::from_millis(100);

/// The time between two checkpoints of a computation.
const BURN_STEP: Nanos = Nanos::from_micros(10);

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
    /// Whether the client has finished its side.
    ended: bool,
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

    /// Lets the next stream read and write, as far as it may. Returns false if none may. If this is
    /// dropped half-way, the next call continues it.
    pub async fn advance_one(&mut self, connection: &mut Connection) -> bool {
        let Some(id) = self.ready.front().copied() else { return false };
        self.advance(connection, id).await;
        self.ready.pop_front();
        true
    }

    /// Forgets all streams, because the connection is lost.
    pub fn clear(&mut self) {
        *self = Streams::default();
    }

    async fn advance(&mut self, connection: &mut Connection, id: StreamId) {
        let Some(stream) = self.open.get_mut(&id) else { return };
        let next = stream.advance(connection, id).await;
        // If the client has reset or stopped a stream, it is already partly closed.
        match next {
            Next::Waits => return,
            Next::Ends => _ = connection.send_stream(id).finish(),
            Next::Refused => {
                let _ = connection.recv_stream(id).stop(REFUSED.into());
                let _ = connection.send_stream(id).reset(REFUSED.into());
            }
        }
        self.open.remove(&id);
    }
}

impl Stream {
    /// Reads and writes until the stream must wait. It reads only after it has written all that it
    /// holds, so the client's window bounds its memory.
    async fn advance(&mut self, connection: &mut Connection, id: StreamId) -> Next {
        loop {
            while self.computes > Nanos::ZERO {
                let step = self.computes.min(BURN_STEP);
                burn(step);
                self.computes = self.computes.minus(step);
                checkpoint().await;
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
            checkpoint().await;
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

/// Computes for `length`.
fn burn(length: Nanos) {
    let began = clock::now();
    while clock::now().minus(began) < length {
        std::hint::spin_loop();
    }
}
