use super::*;

/// A question for `www.example.test. A`, with these counts and with `rest` after the question.
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

// Is a question read as in the standards?
#[test]
fn a_question_is_read() {
    let plain = message([1, 0, 0, 0], b"");
    let query = Query::parse(&plain).expect("a question");
    assert_eq!(query.name.as_bytes(), b"\x03www\x07example\x04test\0");
    assert_eq!((query.rtype, query.class, query.payload(), query.dnssec_ok()), (Rtype::A, CLASS_IN, 512, false));
    assert_eq!(query.head[..], plain);

    let cookie = b"\0\x03\0\0\0\x0a\0\x08abcdefgh";
    let extended = message([1, 0, 0, 1], &opt(1_232, 0xc000, cookie));
    let query = Query::parse(&extended).expect("a question");
    assert_eq!((query.payload(), query.dnssec_ok(), query.head.len()), (1_232, true, plain.len()));
    let edns = query.edns.expect("an OPT record");
    assert!(edns.compact_ok && edns.version == 0);
    assert_eq!(edns.cookie.expect("a cookie").client().into_octets(), *b"abcdefgh");
    // A value below 512 means 512. A record of an unimportant type is skipped.
    let other = b"\xc0\x0c\0\xf9\0\xff\0\0\0\0\0\x02ab";
    let both = message([1, 0, 0, 2], &[&other[..], &opt(0, 0x0001_0000, b"")].concat());
    let query = Query::parse(&both).expect("a question");
    assert_eq!((query.payload(), query.edns.map(|edns| edns.version)), (512, Some(1)));
    // Only an IXFR may have an SOA record in its authority section.
    let mut ixfr = message([1, 0, 1, 0], other);
    assert!(Query::parse(&ixfr).is_err());
    ixfr[12 + 18 + 1] = Rtype::IXFR.to_int() as u8;
    assert!(Query::parse(&ixfr).is_ok());
}

// Is a message that is no question never answered? Does a bad question get the code that says why?
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
        (changed(good.len() - 3, Rtype::NXNAME.to_int() as u8), wrong),
        (changed(good.len() - 3, Rtype::OPT.to_int() as u8), wrong),
        (message([1, 0, 0, 2], &[opt(0, 0, b""), opt(0, 0, b"")].concat()), wrong),
        (message([1, 0, 0, 1], &[b"\x01a", &opt(0, 0, b"")[..]].concat()), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x07abcdefg")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x09abcdefghi")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0\x0a\0\x08abc")), wrong),
        (message([1, 0, 0, 1], &opt(0, 0, b"\0")), wrong),
        (message([1, 0, 0, 1], b"\x40aa"), wrong),
        (message([1, 0, 0, 1], TSIG), wrong),
    ];
    for (message, fault) in cases {
        assert_eq!(Query::parse(&message).map(|query| query.rtype), Err(fault), "{message:x?}");
    }
}

// Can no message make the reader panic? Method: every message that differs from a good one in one
// byte, and every beginning of a good one.
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

/// A TSIG record with a signature of two bytes.
const TSIG: &[u8] =
    b"\x03key\0\0\xfa\0\xff\0\0\0\0\0\x1f\x0bhmac-sha256\0\0\x01\x02\x03\x04\x05\x01\x2c\0\x02ab\x56\x78\0\0\0\0";
