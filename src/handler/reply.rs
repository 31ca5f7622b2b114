//! The reply to a request, while its handler writes it.

use super::extents::{DATAGRAMS_MAX, Extents};
use std::io;

/// The reply area: a writer with as much room as the request is long, unless the handler
/// [allows more](super::Admitted::reply_limit) and the sender may be sent more: requests with a forged source address must
/// not amplify traffic to its owner.
///
/// A write that does not fit writes nothing and marks the reply as overflowed, also where its error is ignored. An
/// overflowed reply is never sent, not even in part: the request ends as `failed` with the reason `overflow`.
/// [`Reply::clear`] takes the mark away, for a handler that has something shorter to say.
///
/// A reply is one datagram, unless [`Reply::begin_datagram`] begins others: up to [`Reply::DATAGRAMS_MAX`], which share
/// the room and are sent in order when the request ends.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    extents: Extents,
    overflowed: bool,
    /// Whether one datagram more than there may be was to begin.
    too_many: bool,
}

/// A reply had no room for what was to be written.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit into the {room} that are left of the reply")]
#[non_exhaustive]
pub struct Overflow {
    /// Number of bytes that were to be written.
    pub bytes: usize,
    /// Number of bytes for which there was room.
    pub room: usize,
}

impl std::fmt::Debug for Overflow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A reply had as many datagrams as it may have, and another one was to begin.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a reply has at most {} datagrams", DATAGRAMS_MAX)]
#[non_exhaustive]
pub struct TooManyDatagrams;

impl std::fmt::Debug for TooManyDatagrams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl<'a> Reply<'a> {
    /// The largest number of datagrams in a reply.
    pub const DATAGRAMS_MAX: usize = DATAGRAMS_MAX;

    /// An empty reply with room for `buffer.len()` bytes, but for no more than 65,535: no datagram is longer.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        let room = buffer.len().min(Extents::BYTES_MAX);
        Reply { buffer: &mut buffer[..room], extents: Extents::default(), overflowed: false, too_many: false }
    }

    /// Bytes written so far, in all datagrams together.
    pub fn len(&self) -> usize {
        self.extents.bytes()
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that can still be written, in all datagrams together.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.len()
    }

    /// Whether something did not fit since the reply was last empty, be it bytes or a datagram.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Overflow`] if they do not fit: nothing of them is written, and the reply is marked as overflowed.
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

    /// Begins another datagram: what was written before is sent as it is, and what is written from here on as a datagram of
    /// its own, behind it. Where nothing has been written since the last one began, that one goes on: so it may be called
    /// before each datagram, also the first, and no datagram is empty.
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
    /// [`TooManyDatagrams`] if there are [`Reply::DATAGRAMS_MAX`]: none begins, and the reply is marked as overflowed.
    pub fn begin_datagram(&mut self) -> Result<(), TooManyDatagrams> {
        if self.extents.begin() {
            return Ok(());
        }
        (self.overflowed, self.too_many) = (true, true);
        Err(TooManyDatagrams)
    }

    /// The bytes written so far, of all datagrams together.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len()]
    }

    /// The datagrams written so far, in order; none is empty.
    pub fn datagrams(&self) -> impl Iterator<Item = &[u8]> {
        self.extents.ranges().map(|range| &self.buffer[range])
    }

    /// The room that is left, to be written in place; [`Reply::advance`] says how much of it counts.
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

    /// Keeps the first `length` bytes, and no datagram that begins behind them. A shorter reply stays as it is, and so does
    /// the mark of an overflow.
    pub fn truncate(&mut self, length: usize) {
        self.extents.truncate(length);
    }

    /// Empties the reply, its datagrams too, and forgets an overflow.
    pub fn clear(&mut self) {
        self.extents = Extents::default();
        (self.overflowed, self.too_many) = (false, false);
    }

    /// Where its datagrams are in the area.
    pub(crate) fn extents(&self) -> Extents {
        self.extents
    }

    /// Whether one datagram more than there may be was to begin since the reply was last empty.
    pub(crate) fn has_too_many_datagrams(&self) -> bool {
        self.too_many
    }
}

/// `write!(reply, ..)` works; what does not fit is an error of kind [`io::ErrorKind::WriteZero`], and marks the reply
/// as [`Reply::put`] does.
impl io::Write for Reply<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.put(bytes) {
            Ok(()) => Ok(bytes.len()),
            // A bare kind: an error with a message would be allocated.
            Err(Overflow { .. }) => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    // Can a reply be written in place, and cut?
    #[test]
    fn a_reply_is_written_in_place_and_cut() {
        let mut buffer = [0; 5];
        let mut reply = Reply::new(&mut buffer);
        reply.put(b"ab").expect("two bytes");
        reply.spare_mut()[..2].copy_from_slice(b"cd");
        assert_eq!(reply.bytes(), b"ab");
        reply.advance(2);
        assert_eq!((reply.bytes(), reply.room()), (&b"abcd"[..], 1));
        reply.truncate(3);
        reply.truncate(4);
        assert_eq!(reply.bytes(), b"abc");
    }

    #[test]
    #[should_panic(expected = "3 bytes do not fit into the 2 that are left of the reply")]
    fn a_reply_does_not_advance_beyond_its_room() {
        Reply::new(&mut [0; 2]).advance(3);
    }

    // Is a reply that had no room marked, by either way to write, and does only emptying it take the mark away?
    #[test]
    fn what_does_not_fit_marks_the_reply() {
        let mut buffer = [0; 5];
        let mut reply = Reply::new(&mut buffer);
        assert_eq!(reply.put(b"abc"), Ok(()));
        assert_eq!(reply.put(b"def"), Err(Overflow { bytes: 3, room: 2 }));
        assert_eq!((reply.len(), reply.room(), reply.has_overflowed()), (3, 2, true));
        assert_eq!(reply.put(b"de"), Ok(()), "what fits is written");
        assert!(reply.has_overflowed(), "and changes nothing of what did not");
        reply.clear();
        assert_eq!((reply.len(), reply.has_overflowed()), (0, false));
        let error = write!(reply, "{}-{}", 12, 345).expect_err("six bytes");
        assert_eq!((error.kind(), reply.has_overflowed()), (io::ErrorKind::WriteZero, true));
        reply.clear();
        write!(reply, "{}-{}", 12, 34).expect("five bytes");
        assert_eq!((reply.has_overflowed(), &buffer), (false, b"12-34"));
    }
    // Do the datagrams of a reply share its room, is none empty, and is cut away what begins behind a cut?
    #[test]
    fn datagrams_share_the_room() {
        let mut buffer = [0; 6];
        let mut reply = Reply::new(&mut buffer);
        assert_eq!(reply.datagrams().count(), 0);
        for text in ["a", "", "bc", "def"] {
            assert_eq!(reply.begin_datagram(), Ok(()));
            reply.put(text.as_bytes()).expect("six bytes in all");
        }
        assert_eq!((reply.len(), reply.room(), reply.bytes()), (6, 0, &b"abcdef"[..]));
        assert!(reply.datagrams().eq([&b"a"[..], b"bc", b"def"]));
        assert_eq!(reply.put(b"g"), Err(Overflow { bytes: 1, room: 0 }));
        reply.truncate(3);
        reply.put(b"x").expect("three bytes were cut");
        assert!(reply.datagrams().eq([&b"a"[..], b"bc", b"x"]), "the last one begins where it was cut");
        reply.truncate(2);
        reply.put(b"y").expect("they were cut");
        assert!(reply.datagrams().eq([&b"a"[..], b"by"]));
        reply.clear();
        reply.put(b"z").expect("all is empty");
        assert!(reply.datagrams().eq([b"z"]));
    }

    // Does the ninth datagram not begin, and mark the reply until that is emptied?
    #[test]
    fn a_reply_has_at_most_eight_datagrams() {
        let mut buffer = [0; 20];
        let mut reply = Reply::new(&mut buffer);
        for number in 0..8 {
            assert_eq!(reply.begin_datagram(), Ok(()), "{number}");
            reply.put(&[number]).expect("twenty bytes");
        }
        assert!(!reply.has_overflowed());
        let error = reply.begin_datagram().expect_err("there are eight");
        assert_eq!(error.to_string(), "a reply has at most 8 datagrams");
        assert_eq!(
            (reply.datagrams().count(), reply.has_overflowed(), reply.has_too_many_datagrams()),
            (8, true, true)
        );
        reply.clear();
        assert_eq!(
            (reply.begin_datagram(), reply.has_overflowed(), reply.has_too_many_datagrams()),
            (Ok(()), false, false)
        );
    }

    // No datagram is longer than a length of UDP can say, and no reply longer than a datagram.
    #[test]
    fn a_reply_is_no_longer_than_a_datagram() {
        let mut buffer = vec![0; 70_000];
        let mut reply = Reply::new(&mut buffer);
        assert_eq!((reply.room(), reply.spare_mut().len()), (65_535, 65_535));
        reply.advance(65_535);
        assert_eq!((reply.len(), reply.put(b"x")), (65_535, Err(Overflow { bytes: 1, room: 0 })));
    }
}
