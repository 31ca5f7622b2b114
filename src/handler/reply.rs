//! The reply to a request, while its handler writes it.

use std::io;

/// The reply area: a writer with as much room as the request is long, unless the handler
/// [allows more](super::Admitted::reply_limit) and the sender may be sent more: requests with a forged source address must
/// not amplify traffic to its owner.
///
/// A write that does not fit writes nothing and marks the reply as overflowed, also where its error is ignored. An
/// overflowed reply is never sent, not even in part: the request ends as `failed` with the reason `overflow`.
/// [`Reply::clear`] takes the mark away, for a handler that has something shorter to say.
#[derive(Debug)]
pub struct Reply<'a> {
    buffer: &'a mut [u8],
    length: usize,
    overflowed: bool,
}

/// A reply had no room for what was to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes do not fit into the {room} that are left of the reply")]
#[non_exhaustive]
pub struct Overflow {
    /// Number of bytes that were to be written.
    pub bytes: usize,
    /// Number of bytes for which there was room.
    pub room: usize,
}

impl<'a> Reply<'a> {
    /// An empty reply with room for `buffer.len()` bytes.
    pub fn new(buffer: &'a mut [u8]) -> Reply<'a> {
        Reply { buffer, length: 0, overflowed: false }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Bytes that can still be written.
    pub fn room(&self) -> usize {
        self.buffer.len() - self.length
    }

    /// Whether something did not fit since the reply was last empty.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of `bytes`.
    ///
    /// # Errors
    /// [`Overflow`] if they do not fit: nothing of them is written, and the reply is marked as overflowed.
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

    /// The room that is left, to be written in place; [`Reply::advance`] says how much of it counts.
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

    /// Keeps the first `length` bytes. A shorter reply stays as it is, and so does the mark of an overflow.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Empties the reply and forgets an overflow.
    pub fn clear(&mut self) {
        self.length = 0;
        self.overflowed = false;
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
}
