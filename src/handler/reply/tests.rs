//! Tests of replies: writing in place, cutting, overflow.

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

// Does a write that does not fit mark the reply, by both ways to write? Does only `clear` remove
// the mark?
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

// Is a reply no longer than a UDP datagram can be?
#[test]
fn a_reply_is_no_longer_than_a_datagram() {
    let mut buffer = vec![0; 70_000];
    let mut reply = Reply::new(&mut buffer);
    assert_eq!((reply.room(), reply.spare_mut().len()), (65_535, 65_535));
    reply.advance(65_535);
    assert_eq!((reply.len(), reply.put(b"x")), (65_535, Err(Overflow { bytes: 1, room: 0 })));
}
