//! A handler's requests over streams: each bidirectional stream is one request.

use crate::application::{Advanced, Application, Around, Got, REFUSED, Streams, code_of, read, reset};
use bytes::{Buf, Bytes};
use forebay::Handler;
use forebay::fate::Fate;
use forebay::handler::{Carried, Full};
use quinn_proto::{Connection, Dir, StreamEvent, StreamId, WriteError};
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;

/// A handler whose requests come over streams. The client sends a request and finishes its side.
/// The server answers with the reply, and finishes its own.
pub struct ByStream<H> {
    /// The handler.
    pub handler: Arc<H>,
    /// The longest request, in bytes.
    pub request_max: usize,
    /// The longest reply, in bytes.
    pub reply_max: usize,
}

// Not derived: that would require the handler to be `Clone`.
impl<H> Clone for ByStream<H> {
    fn clone(&self) -> Self {
        let ByStream { handler, request_max, reply_max } = self;
        ByStream { handler: Arc::clone(handler), request_max: *request_max, reply_max: *reply_max }
    }
}

impl<H: Handler + Send + 'static> Application for ByStream<H> {
    type Streams = Requests<H>;

    fn connect(&self) -> Requests<H> {
        Requests { by: self.clone(), open: HashMap::new(), ready: VecDeque::new() }
    }
}

/// The requests of one connection, as many as its client may open streams.
pub struct Requests<H> {
    by: ByStream<H>,
    open: HashMap<StreamId, State>,
    /// The streams that may read or write, each once.
    ready: VecDeque<StreamId>,
}

/// Where a request is.
enum State {
    /// The client sends it.
    Comes(Vec<u8>),
    /// All of it has come.
    Whole(Vec<u8>),
    /// The handler has it, by this key. It ends early once `_wanted` is dropped.
    Served { key: u64, _wanted: Arc<()> },
    /// This is left of the reply.
    Answers(Bytes),
}

impl<H: Handler + Send + 'static> Requests<H> {
    /// Goes on with a stream, until it must wait. Returns false if there is no room for its
    /// request.
    fn go_on(&mut self, connection: &mut Connection, id: StreamId, around: &mut Around<'_, '_, Infallible>) -> bool {
        let Some(state) = self.open.remove(&id) else { return true };
        let next = match state {
            State::Comes(bytes) => self.receive(connection, id, bytes),
            other => Some(other),
        };
        let (next, has_room) = match next {
            Some(State::Whole(bytes)) => match self.serve(bytes, around) {
                Ok(served) => (Some(served), true),
                Err(Full(bytes)) => (Some(State::Whole(bytes)), false),
            },
            Some(State::Answers(rest)) => (send(connection, id, rest).map(State::Answers), true),
            other => (other, true),
        };
        self.open.extend(next.map(|state| (id, state)));
        has_room
    }

    /// Takes in what has come of a request. `None` if it is not valid, or no more wanted.
    fn receive(&self, connection: &mut Connection, id: StreamId, mut bytes: Vec<u8>) -> Option<State> {
        loop {
            match read(connection, id, self.by.request_max + 1 - bytes.len()) {
                Got::Nothing => return Some(State::Comes(bytes)),
                Got::End => return Some(State::Whole(bytes)),
                Got::Bytes(more) => bytes.extend_from_slice(&more),
                Got::Reset => {
                    reset(connection, id, REFUSED);
                    return None;
                }
            }
            if bytes.len() > self.by.request_max {
                reset(connection, id, REFUSED);
                return None;
            }
        }
    }

    fn serve(&self, bytes: Vec<u8>, around: &mut Around<'_, '_, Infallible>) -> Result<State, Full<Vec<u8>>> {
        let wanted = Arc::new(());
        let carried = Carried::new(bytes, around.peer, around.local).reply_max(self.by.reply_max);
        let served = around.serve(&self.by.handler, carried.wanted(Arc::downgrade(&wanted)));
        served.map(|key| State::Served { key, _wanted: wanted }).map_err(|Full(carried)| Full(carried.into_bytes()))
    }

    fn list(&mut self, id: StreamId) {
        if !self.ready.contains(&id) {
            self.ready.push_back(id);
        }
    }

    /// The stream whose request has this key, if its client still waits.
    fn stream_of(&self, key: u64) -> Option<StreamId> {
        let has_key = |state: &State| matches!(state, State::Served { key: its, .. } if *its == key);
        self.open.iter().find_map(|(id, state)| has_key(state).then_some(*id))
    }
}

/// Sends as much of a reply as the client lets in, and finishes the stream at its end. Returns what
/// is left.
fn send(connection: &mut Connection, id: StreamId, mut rest: Bytes) -> Option<Bytes> {
    let mut stream = connection.send_stream(id);
    while !rest.is_empty() {
        match stream.write(&rest) {
            Ok(written) => rest.advance(written),
            Err(WriteError::Blocked) => return Some(rest),
            // The client has stopped it.
            Err(_) => return None,
        }
    }
    let _ = stream.finish();
    None
}

impl<H: Handler + Send + 'static> Streams for Requests<H> {
    type Made = Infallible;

    fn note(&mut self, connection: &mut Connection, event: &StreamEvent) {
        match *event {
            StreamEvent::Opened { .. } => {
                while let Some(id) = connection.streams().accept(Dir::Bi) {
                    self.open.insert(id, State::Comes(Vec::new()));
                    self.ready.push_back(id);
                }
            }
            StreamEvent::Readable { id } | StreamEvent::Writable { id } => self.list(id),
            StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. } => _ = self.open.remove(&id),
            StreamEvent::Available { .. } => {}
        }
    }

    async fn advance(&mut self, connection: &mut Connection, around: &mut Around<'_, '_, Infallible>) -> Advanced {
        let Some(id) = self.ready.pop_front() else { return Advanced::All };
        if self.go_on(connection, id, around) {
            return Advanced::One;
        }
        self.ready.push_front(id);
        Advanced::Full
    }

    fn made(&mut self, _: u64, made: Infallible) {
        match made {}
    }

    fn replied(&mut self, key: u64, reply: Vec<u8>) {
        if let Some(id) = self.stream_of(key) {
            self.open.insert(id, State::Answers(reply.into()));
            self.list(id);
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
