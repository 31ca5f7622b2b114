use super::*;

/// `www.example.test. A`, with these counts and what follows the question.
fn message(counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0x01, 0x10];
    counts.iter().for_each(|count| message.extend(count.to_be_bytes()));
    message.extend(b"\x03WWW\x07example\x04test\0\0\x01\0\x01");
    message.extend(rest);
    message
}

/// An OPT record with `flags` as its TTL.
fn opt(payload: u16, flags: u32, options: &[u8]) -> Vec<u8> {
    let length = (options.len() as u16).to_be_bytes();
    [&[0, 0, 41][..], &payload.to_be_bytes(), &flags.to_be_bytes(), &length, options].concat()
}

// Is what a question says read as the standards have it?
#[test]
fn a_question_is_read() {
    let plain = message([1, 0, 0, 0], b"");
    let query = Query::parse(&plain).expect("a question");
    assert_eq!(query.name.as_bytes(), b"\x03www\x07example\x04test\0");
    assert_eq!((query.rtype, query.class, query.payload(), query.dnssec_ok()), (rtype::A, CLASS_IN, 512, false));
    assert_eq!(query.head, plain);

    let cookie = b"\0\x03\0\0\0\x0a\0\x08abcdefgh";
    let extended = message([1, 0, 0, 1], &opt(1_232, 0xc000, cookie));
    let query = Query::parse(&extended).expect("a question");
    assert_eq!((query.payload(), query.dnssec_ok(), query.head.len()), (1_232, true, plain.len()));
    let edns = query.edns.expect("an OPT record");
    assert!(edns.compact_ok && edns.version == 0);
    assert_eq!(edns.cookie.expect("a cookie").client().into_octets(), *b"abcdefgh");
    // Below 512 is 512; a record that means nothing here is passed over.
    let other = b"\xc0\x0c\0\xf9\0\xff\0\0\0\0\0\x02ab";
    let both = message([1, 0, 0, 2], &[&other[..], &opt(0, 0x0001_0000, b"")].concat());
    let query = Query::parse(&both).expect("a question");
    assert_eq!((query.payload(), query.edns.map(|edns| edns.version)), (512, Some(1)));
    // An IXFR has an SOA record in its authority section, and others have none there.
    let mut ixfr = message([1, 0, 1, 0], other);
    assert!(Query::parse(&ixfr).is_err());
    ixfr[12 + 18 + 1] = rtype::IXFR as u8;
    assert!(Query::parse(&ixfr).is_ok());
}

// Is what is no question never answered, and what is a bad one answered with the code that says why?
#[test]
fn faults_are_told_apart() {
    let good = message([1, 0, 0, 0], b"");
    let changed = |at: usize, byte: u8| {
        let mut message = good.clone();
        message[at] = byte;
        message
    };
    let (silent, wrong) = (Fault::Silent, Fault::Answered(Rcode::FormErr));
    let cases = [
        (b"".to_vec(), silent),
        (good[..11].to_vec(), silent),
        (changed(2, 0x81), silent),
        (changed(2, 0x20), Fault::Answered(Rcode::NotImp)),
        (changed(5, 0), wrong),
        (changed(5, 2), wrong),
        (changed(7, 1), wrong),
        (changed(9, 1), wrong),
        (changed(11, 1), wrong),
        (changed(12, 0xc0), wrong),
        (good[..good.len() - 1].to_vec(), wrong),
        (message([1, 0, 0, 0], b"more"), wrong),
        (changed(good.len() - 3, rtype::NXNAME as u8), wrong),
        (changed(good.len() - 3, rtype::OPT as u8), wrong),
        (message([1, 0, 0, 2], &[opt(0, 0, b""), opt(0, 0, b"")].concat()), wrong),
        (message([1, 0, 0, 1], &[b"\x01a", &opt(0, 0, b"")[..]].concat()), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x07abcdefg")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x09abcdefghi")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x08abc")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0")), wrong),
        (message([1, 0, 0, 1], b"\x40aa"), wrong),
        // Without a question it is to show a cookie (RFC 7873, 5.4).
        ([b"\x12\x34\0\0\0\0\0\0\0\0\0\x01", &opt(1_232, 0, b"")[..]].concat(), wrong),
    ];
    for (message, fault) in cases {
        assert_eq!(Query::parse(&message).map(|query| query.rtype), Err(fault), "{message:x?}");
    }
}

// Does no message whatever make the reader panic? Method: every message that differs from a good one in one byte, and
// every beginning of one.
#[test]
fn no_message_is_too_odd() {
    let good = message([1, 0, 0, 1], &opt(1_232, 0x8000, b"\0\x0a\0\x08abcdefgh"));
    assert!(Query::parse(&good).is_ok());
    for end in 0..good.len() {
        assert!(Query::parse(&good[..end]).is_err());
    }
    let mut parsed = 0;
    for at in 0..good.len() {
        for byte in 0..=255 {
            let mut message = good.clone();
            message[at] = byte;
            parsed += usize::from(Query::parse(&message).is_ok());
        }
    }
    assert!((good.len()..good.len() * 256).contains(&parsed));
}

/// A TSIG record of `owner` with a signature of 32 bytes.
pub(crate) fn tsig(owner: &[u8]) -> Vec<u8> {
    let head = [owner, b"\0\xfa\0\xff\0\0\0\0\0\x3d\x0bhmac-sha256\0\0\x01\x02\x03\x04\x05\x01\x2c\0\x20"].concat();
    [&head[..], &[7; 32], b"\x56\x78\0\0\0\0"].concat()
}

// Is a TSIG record read where it is the last and whole, and is the message malformed otherwise (RFC 8945, 5.2)?
#[test]
fn a_signed_question_is_read() {
    let good = tsig(b"\x03key\0");
    let wrong = |counts, rest: &[u8]| Query::parse(&message(counts, rest)).map(|query| query.rtype).err();
    let owners = [&b"\x03key\0"[..], b"\x03key\xc0\x10", b"\xc0\x0c", b"\0"];
    for owner in owners {
        let message = message([1, 0, 0, 2], &[opt(1_232, 0, b""), tsig(owner)].concat());
        let tsig = Query::parse(&message).expect("a question").tsig.expect("a TSIG record");
        assert_eq!((tsig.owner, tsig.head.len(), tsig.id), (owner, 13 + 8, 0x5678));
    }
    let malformed = Some(Fault::Answered(Rcode::FormErr));
    for (counts, rest) in [
        ([1, 0, 0, 2], [good.clone(), opt(1_232, 0, b"")].concat()),
        ([1, 0, 0, 2], [good.clone(), good.clone()].concat()),
        ([1, 0, 0, 1], tsig(b"\xc0\x30")),
        ([1, 0, 0, 1], [&good[..8], b"\x01", &good[9..]].concat()),
        ([1, 0, 0, 1], [&good[..12], b"\x01", &good[13..]].concat()),
        ([1, 0, 0, 1], [&good[..14], b"\x3e", &good[15..], b"\0"].concat()),
        ([1, 0, 0, 1], [&good[..good.len() - 1], b"\x01"].concat()),
        ([1, 0, 0, 1], b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x02ab".to_vec()),
    ] {
        assert_eq!(wrong(counts, &rest), malformed, "{rest:x?}");
    }
}
