//! The reply to a request, which the handler writes.

use super::GiveUp;
use std::io;

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
/// It is sent as one datagram when the request ends.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    length: usize,
    overflowed: bool,
    /// How the request ends if the handler has given it up, and the index of the handler's reason.
    pub(crate) given_up: Option<(GiveUp, u8)>,
    /// The place of the event's class, on a server.
    pub(crate) class: Option<&'a mut u8>,
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

impl<'a> Reply<'a> {
    /// An empty reply with room for `buffer.len()` bytes, at most 65,535, the length limit of UDP.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        let room = buffer.len().min(u16::MAX.into());
        Reply::of_any_length(&mut buffer[..room])
    }

    /// An empty reply that does not leave as a datagram, with room for `buffer.len()` bytes.
    pub(crate) fn of_any_length(buffer: &'a mut [u8]) -> Reply<'a> {
        Reply { buffer, length: 0, overflowed: false, given_up: None, class: None }
    }

    /// Number of bytes written so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no byte has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of bytes that can still be written.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len()
    }

    /// Whether a write did not fit since the reply was last empty.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Overflow`] if the bytes do not fit. None of them is written, and the reply is marked as
    /// overflowed.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Overflow> {
        let Some(free) = self.buffer[self.length..].get_mut(..bytes.len()) else {
            self.overflowed = true;
            return Err(Overflow { bytes: bytes.len(), room: self.room() });
        };
        free.copy_from_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The room that is left, to write into directly; [`Reply::advance`] then adds the written
    /// bytes to the reply.
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.length..]
    }

    /// Makes the first `count` bytes of [`Reply::spare_mut`] a part of the reply.
    ///
    /// # Panics
    /// If there is less room.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.room(), "{count} bytes do not fit into the {} that are left of the reply", self.room());
        self.length += count;
    }

    /// Cuts the reply to `length` bytes. A shorter reply does not change. The overflow mark stays.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Empties the reply: removes its bytes and the overflow mark. Also cancels
    /// [`Reply::give_up`].
    pub fn clear(&mut self) {
        (self.length, self.overflowed, self.given_up) = (0, false, None);
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

#[cfg(test)]
mod tests;
