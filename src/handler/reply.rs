//! The reply to a request, which the handler writes.

use std::ops::Range;
use std::{fmt, io};

/// The reply that a handler writes into. It has room for as many bytes as the request has. So a
/// request with a forged source address cannot amplify traffic to the address's owner. There is
/// more room if the handler [allows it](super::Admitted::reply_limit) and the limits for the sender
/// do too.
///
/// A write that does not fit writes nothing and marks the reply as overflowed, even if the error is
/// ignored. An overflowed reply is never sent, not even in part: the request ends as `failed` with
/// the reason `overflow`. [`Reply::clear`] removes the mark, for a handler that has a shorter
/// reply.
///
/// A reply is one datagram, unless [`Reply::begin_datagram`] begins more, up to
/// [`Reply::DATAGRAMS_MAX`]. They share the room and are sent in order when the request ends.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    /// Where each datagram lies in `buffer`.
    pub(crate) extents: Extents,
    overflowed: bool,
    /// Whether the handler tried to begin more than [`DATAGRAMS_MAX`] datagrams.
    pub(crate) too_many: bool,
    /// How the request ends if the handler has given it up, and the index of the handler's reason.
    pub(crate) given_up: Option<(GiveUp, u8)>,
    /// The place of the event's class, on a server.
    pub(crate) class: Option<&'a mut u8>,
}

/// How a request ends if its handler gives it up; see [`Reply::give_up`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GiveUp {
    /// As [`Fate::Refused`](crate::fate::Fate::Refused): it will not be served.
    Refused,
    /// As [`Fate::ShedQueueFull`](crate::fate::Fate::ShedQueueFull): there is no room for it now,
    /// such as for one more session.
    Full,
    /// As [`Fate::Failed`](crate::fate::Fate::Failed): something that it needs has failed.
    Failed,
}

/// An error: the reply had no room for a write.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit into the {room} that are left of the reply")]
#[non_exhaustive]
pub struct Overflow {
    /// Length of the write, in bytes.
    pub bytes: usize,
    /// Room that was left, in bytes.
    pub room: usize,
}

crate::time::show_as_text!(Overflow);

/// An error: there is no room for one more, or the server has stopped. Gives back the message or
/// the work that was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there are as many as may be, or the server has stopped")]
#[non_exhaustive]
pub struct Full<M = ()>(pub M);

/// Shows the error without the message, which may be anything.
impl<M> fmt::Debug for Full<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl<'a> Reply<'a> {
    /// The largest number of datagrams in a reply.
    pub const DATAGRAMS_MAX: usize = DATAGRAMS_MAX;

    /// An empty reply with room for `buffer.len()` bytes, at most 65,535, the length limit of UDP.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        let room = buffer.len().min(Extents::BYTES_MAX);
        let (overflowed, too_many, given_up, class) = (false, false, None, None);
        Reply { buffer: &mut buffer[..room], extents: Extents::default(), overflowed, too_many, given_up, class }
    }

    /// Bytes written so far, in all datagrams together.
    pub fn len(&self) -> usize {
        self.extents.bytes()
    }

    /// Whether no byte has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that can still be written, in all datagrams together.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len()
    }

    /// Whether a write or a datagram did not fit since the reply was last empty.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Overflow`] if the bytes do not fit. None of them is written, and the reply is marked as
    /// overflowed.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Overflow> {
        let length = self.len();
        let Some(free) = self.buffer[length..].get_mut(..bytes.len()) else {
            self.overflowed = true;
            return Err(Overflow { bytes: bytes.len(), room: self.room() });
        };
        free.copy_from_slice(bytes);
        self.extents.set_bytes(length + bytes.len());
        Ok(())
    }

    /// Begins another datagram: later writes go into a datagram of their own. If the last datagram
    /// is still empty, nothing changes. So call it before each datagram, the first included; no
    /// datagram is empty.
    ///
    /// ```
    /// use forebay::{Handler, Reply, Request};
    ///
    /// /// Answers each line with its length, in a datagram of its own.
    /// struct Lengths;
    ///
    /// impl Handler for Lengths {
    ///     type Ticket = ();
    ///
    ///     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
    ///         for line in request.bytes().split(|byte| *byte == b'\n').take(Reply::DATAGRAMS_MAX) {
    ///             reply.begin_datagram().expect("no more lines than there may be datagrams");
    ///             let _ = reply.put(&[line.len() as u8]); // what does not fit marks the reply
    ///         }
    ///     }
    /// }
    ///
    /// let mut area = [0; 8];
    /// let mut reply = Reply::new(&mut area);
    /// for answer in [b"ab", b"cd"] {
    ///     reply.begin_datagram()?;
    ///     reply.put(answer)?;
    /// }
    /// assert!(reply.datagrams().eq([b"ab", b"cd"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Full`] if there are [`Reply::DATAGRAMS_MAX`]. The reply is then marked as
    /// overflowed.
    pub fn begin_datagram(&mut self) -> Result<(), Full> {
        if self.extents.begin() {
            return Ok(());
        }
        (self.overflowed, self.too_many) = (true, true);
        Err(Full(()))
    }

    /// The bytes written so far, of all datagrams together.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len()]
    }

    /// The datagrams written so far, in order; none is empty.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.extents.ranges().map(|range| &self.buffer[range])
    }

    /// The room that is left, to write into directly; [`Reply::advance`] then adds the written
    /// bytes to the reply.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        let length = self.len();
        &mut self.buffer[length..]
    }

    /// Makes the first `count` bytes of [`Reply::spare_mut`] a part of the reply.
    ///
    /// # Panics
    /// If there is less room.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.room(), "{count} bytes do not fit into the {} that are left of the reply", self.room());
        self.extents.set_bytes(self.len() + count);
    }

    /// Cuts the reply to `length` bytes, and drops datagrams that begin after them. A shorter reply
    /// does not change. The overflow mark stays.
    pub fn truncate(&mut self, length: usize) {
        self.extents.truncate(length);
    }

    /// Empties the reply: removes its bytes, its datagrams and the overflow mark. Also cancels
    /// [`Reply::give_up`].
    pub fn clear(&mut self) {
        self.extents = Extents::default();
        (self.overflowed, self.too_many, self.given_up) = (false, false, None);
    }

    /// Gives the request up: when `handle` returns, it ends as `end`. The written bytes are not
    /// sent; [`Handler::refuse`](super::Handler::refuse) writes an answer instead. The request
    /// counts under `reason`, an index into
    /// [`Handler::REASON_NAMES`](super::Handler::REASON_NAMES). If the index is out of range, it
    /// counts without a reason, or as `given_up` if it failed.
    ///
    /// ```
    /// use forebay::handler::GiveUp;
    /// use forebay::{Handler, Reply, Request};
    ///
    /// /// Answers with the name of a user, if there is one.
    /// struct Names;
    ///
    /// impl Handler for Names {
    ///     type Ticket = ();
    ///
    ///     const REASON_NAMES: &'static [&'static str] = &["no_such_user"];
    ///
    ///     async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
    ///         match request.bytes() {
    ///             [1, ..] => _ = reply.put(b"root"),
    ///             _ => reply.give_up(GiveUp::Refused, 0),
    ///         }
    ///     }
    /// }
    /// ```
    pub fn give_up(&mut self, end: GiveUp, reason: u8) {
        self.given_up = Some((end, reason));
    }

    /// Counts the event in `class`. Use it if only `handle` can know the class, for example after a
    /// decryption. The event counts there however it ends, and with all of its time. Classes above
    /// the largest count as the largest. Policies still use the class of
    /// [`Admitted::class`](super::Admitted::class).
    pub fn set_class(&mut self, class: u8) {
        self.class.iter_mut().for_each(|place| **place = class);
    }
}

/// For `write!(reply, ..)`. A write that does not fit gives an error of kind
/// [`io::ErrorKind::WriteZero`], and marks the reply as [`Reply::put`] does.
impl io::Write for Reply<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            // An error with a message would be allocated.
            Err(Overflow { .. }) => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The most datagrams in a reply. It bounds the cost of one request, and the packet headers that a
/// source gets that may be forged.
const DATAGRAMS_MAX: usize = 8;

/// Where each datagram of a reply begins. Positions take two bytes, because every packet holds one
/// of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// Bytes of all datagrams together.
    bytes: u16,
    /// Where the datagrams after the first begin, rising and above 0; only `further` of them are in
    /// use.
    begins: [u16; DATAGRAMS_MAX - 1],
    /// Number of datagrams after the first.
    further: u8,
}

impl Extents {
    /// The most bytes of one reply, all datagrams together.
    const BYTES_MAX: usize = u16::MAX as usize;

    /// Bytes of all datagrams together.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.bytes)
    }

    /// Sets the bytes of all datagrams together, which makes the last datagram longer. At most
    /// [`Extents::BYTES_MAX`], and no fewer than before.
    #[inline]
    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        debug_assert!((self.bytes()..=Self::BYTES_MAX).contains(&bytes), "{bytes} bytes after {}", self.bytes);
        self.bytes = bytes as u16;
    }

    /// Begins a datagram, unless the last one is empty. Returns false if there are
    /// [`DATAGRAMS_MAX`].
    fn begin(&mut self) -> bool {
        if self.last_is_empty() {
            return true;
        }
        let Some(begin) = self.begins.get_mut(usize::from(self.further)) else { return false };
        *begin = self.bytes;
        self.further += 1;
        true
    }

    /// Keeps the first `bytes` bytes, and drops datagrams that begin behind them.
    fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(u16::try_from(bytes).unwrap_or(u16::MAX));
        let begun = self.begun();
        self.further = begun.iter().filter(|begin| **begin <= self.bytes).count() as u8;
    }

    /// Number of datagrams that are not empty.
    #[inline]
    pub(crate) fn datagrams(&self) -> usize {
        1 + usize::from(self.further) - usize::from(self.last_is_empty())
    }

    /// The range of each datagram that is not empty, in order.
    #[inline]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.datagrams()).map(|number| {
            let begin = if number == 0 { 0 } else { self.begins[number - 1] };
            let end = self.begun().get(number).copied().unwrap_or(self.bytes);
            usize::from(begin)..usize::from(end)
        })
    }

    /// Whether the last datagram is empty; no other can be.
    #[inline]
    fn last_is_empty(&self) -> bool {
        self.begun().last().copied().unwrap_or(0) == self.bytes
    }

    #[inline]
    fn begun(&self) -> &[u16] {
        &self.begins[..usize::from(self.further)]
    }
}

#[cfg(test)]
mod tests;
