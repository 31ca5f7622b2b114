//! What a server does with the streams of its connections.

use crate::client::{Out, Told};
use forebay::fate::Fate;
use forebay::handler::{Carried, Full};
use forebay::time::Nanos;
use forebay::{Admitted, Handler};
use quinn_proto::{Connection, ReadError, StreamEvent, StreamId};
use std::net::SocketAddr;
use std::sync::Arc;

/// The error code of a stream whose request is not valid, or not served.
pub const REFUSED: u32 = 1;

/// An application: it says what each connection begins with.
pub trait Application: Send + Sync + 'static {
    /// The streams of one connection.
    type Streams: Streams;

    /// The streams of a new connection: none.
    fn connect(&self) -> Self::Streams;
}

/// The streams of one connection. Each is called with events of the connection's shard.
pub trait Streams: Send {
    /// What work makes that an event has [begun](Around::begin).
    type Made: Send + 'static;

    /// For how long an event of the connection computes for its streams.
    fn here(&self) -> Nanos {
        Nanos::ZERO
    }

    /// Notes an event of a stream of `connection`.
    fn note(&mut self, connection: &mut Connection, event: &StreamEvent);

    /// Lets the next stream read and write, as far as it may. If the future is dropped half-way,
    /// the next call continues it.
    fn advance(
        &mut self,
        connection: &mut Connection,
        around: &mut Around<'_, '_, Self::Made>,
    ) -> impl Future<Output = Advanced> + Send;

    /// Takes what the work of this key has made.
    fn made(&mut self, key: u64, made: Self::Made);

    /// Takes the reply to the request of this key.
    fn replied(&mut self, key: u64, reply: Vec<u8>) {
        let _ = (key, reply);
    }

    /// Notes that what has this key ended as `fate`, without a result.
    fn unfinished(&mut self, connection: &mut Connection, key: u64, fate: Fate);

    /// Forgets all streams, because the connection is lost.
    fn clear(&mut self);
}

/// How far the streams of a connection have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// One of them has done what it could.
    One,
    /// None may read or write.
    All,
    /// There is no room for what one of them is to begin.
    Full,
}

/// What an event lets the streams of its connection do beside reading and writing.
pub struct Around<'a, 'o, M> {
    /// For how long the event may still compute.
    pub here: Nanos,
    /// The client's address.
    pub peer: SocketAddr,
    /// The server's address that the client knows.
    pub local: SocketAddr,
    pub(crate) keys: &'a mut Keys,
    pub(crate) place: u16,
    pub(crate) out: &'a Out<'o, M>,
}

impl<M: Send + 'static> Around<'_, '_, M> {
    /// Begins `work` as a request of its own. Returns its key.
    ///
    /// # Errors
    /// [`Full`] if too many are under way.
    pub fn begin(&mut self, admitted: Admitted, work: impl Future<Output = M> + Send + 'static) -> Result<u64, Full> {
        let key = self.keys.next(self.place);
        let work = async move { Told::Made { key, made: work.await } };
        self.out.begin(key, Some(self.peer), admitted, work).map(|()| key).map_err(|_| Full(()))
    }

    /// Lets `handler` serve a request. Returns its key.
    ///
    /// # Errors
    /// [`Full`] with the request, if too many are under way.
    pub fn serve<H: Handler + Send + 'static>(
        &mut self,
        handler: &Arc<H>,
        carried: Carried,
    ) -> Result<u64, Full<Carried>> {
        let key = self.keys.next(self.place);
        self.out.serve(key, handler, carried).map(|()| key)
    }
}

/// Makes the keys of what the connections of a shard begin. Each key is made once, and contains the
/// place of its connection. So a connection never gets what an earlier one at its place has begun.
#[derive(Default)]
pub struct Keys(u64);

impl Keys {
    fn next(&mut self, place: u16) -> u64 {
        self.0 += 1;
        self.0 << u16::BITS | u64::from(place)
    }

    /// The place of the connection that began what has this key. `None` for work of no connection.
    pub fn place_of(key: u64) -> Option<u16> {
        (key > 0).then_some(key as u16)
    }
}

/// The result of reading from a stream.
pub enum Got {
    /// These bytes.
    Bytes(bytes::Bytes),
    /// Nothing, for now.
    Nothing,
    /// The client has finished its side.
    End,
    /// The client has reset the stream.
    Reset,
}

/// Reads at most `most` bytes that come next.
pub fn read(connection: &mut Connection, id: StreamId, most: usize) -> Got {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return Got::Reset };
    let got = match chunks.next(most) {
        Ok(Some(chunk)) => Got::Bytes(chunk.bytes),
        Ok(None) => Got::End,
        Err(ReadError::Blocked) => Got::Nothing,
        Err(ReadError::Reset(_)) => Got::Reset,
    };
    // The result does not matter: after each event, all packets are sent.
    let _ = chunks.finalize();
    got
}

/// Ends both sides of a stream with an error code. It may be partly closed already.
pub fn reset(connection: &mut Connection, id: StreamId, code: u32) {
    let _ = connection.recv_stream(id).stop(code.into());
    let _ = connection.send_stream(id).reset(code.into());
}

/// The error code of a stream whose request ended as `fate`: the number of its status
/// ([`Status`](forebay::fate::Status)), and [`REFUSED`] for what gets no answer.
pub fn code_of(fate: Fate) -> u32 {
    fate.status().map_or(REFUSED, |status| status as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::fate::Status;

    // Does a key lead to its place, and is none made twice?
    #[test]
    fn keys_are_made_once() {
        let mut keys = Keys::default();
        let made: Vec<_> = (0..1_000).map(|number| (number % 256, keys.next(number % 256))).collect();
        assert!(made.iter().all(|(place, key)| Keys::place_of(*key) == Some(*place)));
        assert!(made.windows(2).all(|two| two[0].1 < two[1].1));
        assert_eq!(Keys::place_of(0), None);
    }

    // Does a client see by the code why its stream was reset?
    #[test]
    fn each_fate_has_a_code() {
        assert_eq!([Fate::Malformed, Fate::Ignored, Fate::Refused].map(code_of), [REFUSED; 3]);
        assert_eq!([Fate::ShedWaited, Fate::Failed].map(code_of), [8, 6]);
        assert_eq!(Status::ALL[8], Status::ShedWaited);
    }
}
