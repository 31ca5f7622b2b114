//! Do the bytes of the bench protocol mean what its table says, in both directions, and can no
//! bytes break the parser? Method: property tests over every field and over any bytes, each rule of
//! the table broken alone, and golden bytes.

use forebay::fate::Ending;
use forebay::inside::wire::{CLASS_NAMES, CLASSES, Served};
use proptest::prelude::*;
use support::prelude::*;

/// `GOLDEN_REQUEST` as bytes, for comparison with clients in other languages.
const GOLDEN_REQUEST_BYTES: [u8; HEADER_BYTES] = [
    0x46, 0x42, 0x41, 0x59, 0x01, 0x01, 0x01, 0x00, // magic, version, kind, class, status
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // id
    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, // stamp
    0x20, 0xa1, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, // cost: 500,000 ns
    0x10, 0x27, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // deadline: 10,000 us; worker, pool, hops
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // kernel wait
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // queue wait
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // service time
];

const GOLDEN_REQUEST: Header = Header {
    kind: Kind::Request,
    class: 1,
    status: Status::Ok,
    id: 0x1122_3344_5566_7788,
    stamp: 0x0123_4567_89ab_cdef,
    cost: Nanos::from_micros(500),
    deadline_us: 10_000,
    served: Served {
        worker: 0,
        pool: 0,
        hops: 0,
        kernel_wait: Nanos::ZERO,
        queue_wait: Nanos::ZERO,
        service: Nanos::ZERO,
    },
};

/// A reply to it, shed because it expired.
const GOLDEN_REPLY_BYTES: [u8; HEADER_BYTES] = [
    0x46, 0x42, 0x41, 0x59, 0x01, 0x02, 0x01, 0x03, // magic, version, kind, class, status
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // id
    0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01, // stamp
    0x20, 0xa1, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, // cost
    0x10, 0x27, 0x00, 0x00, 0x0d, 0x01, 0x02, 0x03, // deadline; worker 269, pool 2, hops 3
    0xe8, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // kernel wait: 1,000 ns
    0x40, 0x42, 0x0f, 0x00, 0x00, 0x00, 0x00, 0x00, // queue wait: 1,000,000 ns
    0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, // service time: 2^32 + 1 ns
];

const GOLDEN_REPLY: Header = Header {
    kind: Kind::Reply,
    status: Status::ShedExpired,
    served: Served {
        worker: 269,
        pool: 2,
        hops: 3,
        kernel_wait: Nanos::from_micros(1),
        queue_wait: Nanos::from_millis(1),
        service: Nanos::new((1 << 32) + 1),
    },
    ..GOLDEN_REQUEST
};

proptest! {
    // Method: any bytes after the beginning of a good message. The reader skips fields that a
    // request does not use.
    #[test]
    fn any_bytes_are_a_header_or_a_reason(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        kind in prop::sample::select(vec![Kind::Request, Kind::Reply, Kind::Repeatable]),
        prefix in prop::sample::select(vec![0, 4, 5, 6, 8, 8]),
    ) {
        let good = Header { kind, ..GOLDEN_REPLY }.emit();
        let prefix = prefix.min(bytes.len());
        bytes[..prefix].copy_from_slice(&good[..prefix]);
        let parsed = Header::parse(&bytes);
        let is_whole = prefix >= 6 && bytes.len() >= HEADER_BYTES;
        let is_header = is_whole && (kind != Kind::Reply || usize::from(bytes[7]) < Status::ALL.len());
        prop_assert!(parsed.is_ok() || !is_header, "{:?}", parsed);
        if let Ok(header) = parsed {
            prop_assert!(bytes.len() >= HEADER_BYTES);
            bytes.truncate(HEADER_BYTES);
            if header.kind != Kind::Reply {
                bytes[7] = 0;
                bytes[36..].fill(0);
            }
            prop_assert_eq!(&header.emit()[..], &bytes[..]);
        }
    }
}

// Do the messages have exactly these bytes? A change would break every existing client.
#[test]
fn golden_bytes_hold() {
    for (header, bytes) in [(GOLDEN_REQUEST, GOLDEN_REQUEST_BYTES), (GOLDEN_REPLY, GOLDEN_REPLY_BYTES)] {
        assert_eq!(header.emit(), bytes);
        assert_eq!(Header::parse(&bytes), Ok(header));
    }
}

#[test]
fn each_rule_has_its_reason() {
    let with = |changes: &[(usize, u8)]| {
        let mut bytes = GOLDEN_REPLY_BYTES;
        changes.iter().for_each(|(offset, value)| bytes[*offset] = *value);
        Header::parse(&bytes)
    };
    assert_eq!(Header::parse(b""), Err(Malformed::Empty));
    for length in 1..HEADER_BYTES {
        assert_eq!(Header::parse(&GOLDEN_REQUEST_BYTES[..length]), Err(Malformed::Truncated), "{length} bytes");
    }
    let magic = (0..4).map(|offset| (offset, b'x', Malformed::Magic));
    let version = [0, 2, 255].map(|version| (4, version, Malformed::Version));
    let kind = [0, 4, 255].map(|kind| (5, kind, Malformed::Kind));
    let status = [Status::ALL.len() as u8, 255].map(|status| (7, status, Malformed::Kind));
    for (offset, value, reason) in magic.chain(version).chain(kind).chain(status) {
        assert_eq!(with(&[(offset, value)]), Err(reason), "byte {offset} is {value}");
    }
    assert_eq!(with(&[(0, 0), (4, 0), (5, 0)]), Err(Malformed::Magic));
    assert_eq!(with(&[(4, 0), (5, 0)]), Err(Malformed::Version));
}

// Does each status have the number of its row? Does a shed request, and no other, get a time to
// send it again?
#[test]
fn numbers_are_the_documented_ones() {
    for (number, status) in Status::ALL.into_iter().enumerate() {
        let mut bytes = GOLDEN_REPLY_BYTES;
        bytes[7] = number as u8;
        let expected = if status.ending() == Ending::Shed { Nanos::from_millis(1) } else { Nanos::ZERO };
        let header = Header::parse(&bytes).expect("a reply");
        assert_eq!((header.status, usize::from(status as u8), header.retry_after()), (status, number, expected));
    }
    assert_eq!([CLASS_NAMES[0], CLASS_NAMES[1], CLASS_NAMES[CLASSES - 1]], ["short", "long", "class7"]);
}
