use super::*;
use crate::keys::Algorithm;
use crate::query::HEADER_BYTES;
use crate::zones::Source;
use domain::base::iana::Rtype;
use domain::base::message::Message;
use domain::base::name::ToLabelIter;
use domain::base::{Name, ParsedName};
use domain::rdata::AllRecordData;
use forebay::server::Counter;
use std::fmt::Write;
use std::path::Path;

const NOW: u32 = 1_800_000_000;

const OPTIONS: Options = Options { payload: 1_232, cookie: None, nsid: None, padded: false };

fn loaded(origin: &str, file: &Path, algorithm: Option<Algorithm>) -> Zones {
    let source = Source::parse(&format!("{origin}={}", file.display())).expect("a zone");
    let signed =
        algorithm.map(|algorithm| source.clone().signed(algorithm, None, 1_000, &Counter::default()).expect("a key"));
    Zones::load(&[signed.unwrap_or(source)]).expect("the zone")
}

/// The zone of `example.zone`, signed or not.
pub(crate) fn zones(algorithm: Option<Algorithm>) -> Zones {
    loaded("example.test", &Path::new(env!("CARGO_MANIFEST_DIR")).join("example.zone"), algorithm)
}

/// The signed zone of this text.
pub(crate) fn zone_of(origin: &str, text: &str, algorithm: Algorithm) -> Zones {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    loaded(origin, file.path(), Some(algorithm))
}

/// A query for `name` and `rtype`. With `flags` it has an OPT record with these flags.
pub(crate) fn question(name: &str, rtype: Rtype, flags: Option<u16>) -> Vec<u8> {
    let name: Name<Vec<u8>> = name.parse().expect("a name");
    let mut message = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    message.extend(name.as_slice());
    message.extend([rtype.to_int().to_be_bytes(), [0, 1]].concat());
    if let Some(flags) = flags {
        message[11] = 1;
        message.extend(b"\0\0\x29\x10\0\0\0");
        message.extend(flags.to_be_bytes());
        message.extend([0, 0]);
    }
    message
}

/// The complete answer with its signatures; `None` if it does not fit.
fn written(zones: &Zones, message: &[u8], limit: usize) -> Option<Vec<u8>> {
    let query = Query::parse(message).expect("a question");
    let mut answer = Answer::find(zones, &query, NOW);
    while let Some(index) = answer.unsigned() {
        answer.sign(index);
    }
    let mut out = vec![0; limit];
    let length = answer.write(&OPTIONS, &mut out)?;
    out.truncate(length);
    Some(out)
}

pub(crate) fn answered(zones: &Zones, message: &[u8], limit: usize) -> Vec<u8> {
    written(zones, message, limit).expect("room")
}

pub(crate) const DO: Option<u16> = Some(0x8000);

/// The answer as one line: code, flags, and the types in each section. A type is followed by its
/// owner if this is not the name.
fn line(zones: &Zones, name: &str, rtype: Rtype, flags: Option<u16>) -> String {
    let message = answered(zones, &question(name, rtype, flags), 4_096);
    let message = Message::from_octets(message).expect("a message");
    assert_eq!((message.header().id(), message.header().qr(), message.header().rd()), (0x1234, true, true));
    let mut line = message.header().rcode().to_string();
    for (set, flag) in [(message.header().aa(), " aa"), (message.header().tc(), " tc")] {
        line.push_str(if set { flag } else { "" });
    }
    let (_, answer, authority, additional) = message.sections().expect("sections");
    let asked: Name<Vec<u8>> = name.parse().expect("a name");
    for section in [answer, authority, additional] {
        line.push_str(" |");
        for record in section.limit_to::<AllRecordData<_, ParsedName<_>>>() {
            let record = record.expect("a record");
            write!(line, " {}", record.rtype()).expect("text");
            if record.owner() != &asked && record.rtype() != Rtype::OPT {
                write!(line, "({})", record.owner().iter_labels().next().expect("a label")).expect("text");
            }
        }
    }
    line
}

// Is each kind of answer as in RFC 1034 and later standards? The comparison with NSD and Knot
// covers the other questions.
#[test]
fn answers_of_an_unsigned_zone() {
    let zones = zones(None);
    for (name, rtype, expected) in [
        ("example.test", Rtype::SOA, "NOERROR aa | SOA | |"),
        ("chain.example.test", Rtype::A, "NOERROR aa | CNAME CNAME(alias) A(www) A(www) | |"),
        ("outside.example.test", Rtype::A, "NOERROR aa | CNAME | |"),
        ("tochild.example.test", Rtype::A, "NOERROR aa | CNAME | NS(child) NS(child) | A(ns) AAAA(ns)"),
        ("child.example.test", Rtype::A, "NOERROR | | NS NS | A(ns) AAAA(ns)"),
        ("x.child.example.test", Rtype::DS, "NOERROR | | NS(child) NS(child) | A(ns) AAAA(ns)"),
        ("away.example.test", Rtype::A, "NOERROR | | NS NS | A(ns1) AAAA(ns1)"),
        ("www.example.test", Rtype::ANY, "NOERROR aa | A A | |"),
        ("chain.example.test", Rtype::ANY, "NOERROR aa | CNAME | |"),
        ("www.example.test", Rtype::RRSIG, "NOERROR aa | | SOA(example) |"),
        ("www.example.test", Rtype::AXFR, "REFUSED | | |"),
        ("example.test", Rtype::DNSKEY, "NOERROR aa | | SOA |"),
        ("www.example.org", Rtype::A, "REFUSED | | |"),
        ("test", Rtype::NS, "REFUSED | | |"),
    ] {
        assert_eq!(line(&zones, name, rtype, None), expected, "{name} {rtype}");
        // With EDNS, even with DO, the only addition is an OPT record.
        let expected = format!("{expected} OPT");
        assert_eq!(line(&zones, name, rtype, DO), expected, "{name} {rtype} DO");
    }
    // A circle of aliases ends.
    let circle = line(&zones, "circle.example.test", Rtype::A, None);
    assert_eq!(circle.matches("CNAME").count(), crate::find::ALIASES_MAX, "{circle}");
    assert!(circle.starts_with("NOERROR aa"), "{circle}");
}

// Is all data of the zone itself signed, and are names and types that do not exist denied
// compactly? `delv` validates the other cases.
#[test]
fn answers_of_a_signed_zone() {
    let zones = zones(Some(Algorithm::Ed25519));
    for (name, rtype, flags, expected) in [
        ("www.example.test", Rtype::A, Some(0), "NOERROR aa | A A | | OPT"),
        ("www.example.test", Rtype::A, None, "NOERROR aa | A A | |"),
        ("no.example.test", Rtype::A, DO, "NOERROR aa | | SOA(example) RRSIG(example) NSEC RRSIG | OPT"),
        ("no.example.test", Rtype::A, Some(0xc000), "NXDOMAIN aa | | SOA(example) RRSIG(example) NSEC RRSIG | OPT"),
        ("no.example.test", Rtype::A, None, "NXDOMAIN aa | | SOA(example) |"),
        (
            "dangling.example.test",
            Rtype::A,
            DO,
            "NOERROR aa | CNAME RRSIG | SOA(example) RRSIG(example) NSEC(nothing) RRSIG(nothing) | OPT",
        ),
        ("child.example.test", Rtype::A, DO, "NOERROR | | NS NS NSEC RRSIG | A(ns) AAAA(ns) OPT"),
        ("a.secure.example.test", Rtype::A, DO, "NOERROR | | NS(secure) DS(secure) RRSIG(secure) | A(ns) OPT"),
        ("www.example.test", Rtype::NSEC, DO, "NOERROR aa | NSEC RRSIG | | OPT"),
        ("www.example.test", Rtype::ANY, DO, "NOERROR aa | A A RRSIG | | OPT"),
        ("www.example.test", Rtype::RRSIG, None, "NOERROR aa | RRSIG | |"),
        ("www.example.test", Rtype::RRSIG, DO, "NOERROR aa | RRSIG | | OPT"),
        ("chain.example.test", Rtype::RRSIG, DO, "NOERROR aa | RRSIG | | OPT"),
        ("and.example.test", Rtype::RRSIG, DO, "NOERROR aa | RRSIG | | OPT"),
        ("no.example.test", Rtype::RRSIG, None, "NXDOMAIN aa | | SOA(example) |"),
        ("child.example.test", Rtype::RRSIG, None, "NOERROR | | NS NS | A(ns) AAAA(ns)"),
        ("www.example.org", Rtype::A, DO, "REFUSED | | | OPT"),
    ] {
        assert_eq!(line(&zones, name, rtype, flags), expected, "{name} {rtype} {flags:?}");
    }
}

// Do proofs list the types of a name, and say of a name that it does not exist?
#[test]
fn proofs_list_what_is_there() {
    let zones = zones(Some(Algorithm::Ed25519));
    for (name, rtype, types) in [
        ("www.example.test", Rtype::MX, "A AAAA RRSIG NSEC"),
        ("and.example.test", Rtype::A, "RRSIG NSEC"),
        ("child.example.test", Rtype::DS, "NS RRSIG NSEC"),
        // An address at a delegation belongs to the child's zone.
        ("own.example.test", Rtype::DS, "NS RRSIG NSEC"),
        ("a.star.example.test", Rtype::MX, "A TXT RRSIG NSEC"),
        ("no.example.test", Rtype::A, "RRSIG NSEC NXNAME"),
        ("unknown.example.test", Rtype::A, "RRSIG NSEC TYPE65280"),
        ("example.test", Rtype::PTR, "A NS SOA MX TXT AAAA RRSIG NSEC DNSKEY CAA"),
    ] {
        let message = Message::from_octets(answered(&zones, &question(name, rtype, DO), 4_096)).expect("a message");
        let mut records = message.authority().expect("a section").limit_to::<domain::rdata::Nsec<_, ParsedName<_>>>();
        let nsec = records.next().expect("a proof").expect("a record");
        let listed: Vec<String> = nsec.data().types().iter().map(|rtype| rtype.to_string()).collect();
        assert_eq!(listed.join(" "), types, "{name}");
        assert_eq!(nsec.data().next_name().to_string(), format!("\\000.{name}"));
    }
    assert_eq!(crate::find::NXNAME_BITMAP, *crate::zone::bitmap([Rtype::RRSIG, Rtype::NSEC, Rtype::NXNAME]));
}

// Is a signature made only once until it is old, and is the number of signatures bounded?
#[test]
fn signatures_are_remembered() {
    let zones = zones(Some(Algorithm::Ed25519));
    let message = question("www.example.test", Rtype::A, DO);
    let query = Query::parse(&message).expect("a question");
    let find = |now| Answer::find(&zones, &query, now);
    let mut answer = find(NOW);
    assert_eq!(answer.unsigned(), Some(0));
    answer.sign(0);
    let day = 86_400;
    for (now, known) in [(NOW, true), (NOW + 7 * day - 1, true), (NOW + 7 * day, false), (NOW - 1, false)] {
        assert_eq!(find(now).unsigned().is_none(), known, "{now}");
    }
    let of_name = |number: usize| {
        let message = question(&format!("x{number}.star.example.test"), Rtype::A, DO);
        let query = Query::parse(&message).expect("a question");
        let mut answer = Answer::find(&zones, &query, NOW);
        let known = answer.unsigned().is_none();
        answer.unsigned().into_iter().for_each(|index| answer.sign(index));
        known
    };
    assert!((0..3_000).all(|number| !of_name(number)), "each name has a signature of its own");
    let known = (0..3_000).filter(|number| of_name(*number)).count();
    assert!((100..=1_000).contains(&known), "{known}");
}

// Does an answer that is too long only say so? Is an answer sent if it fits exactly?
#[test]
fn what_does_not_fit_is_left_out() {
    let zones = zones(None);
    for (name, rtype, flags) in [("big.example.test", Rtype::TXT, None), ("child.example.test", Rtype::A, DO)] {
        let message = question(name, rtype, flags);
        let whole = answered(&zones, &message, 4_096);
        assert_eq!(answered(&zones, &message, whole.len()), whole);
        let short = answered(&zones, &message, whole.len() - 1);
        let head = message.len();
        assert_eq!((short.len(), short[2] & 2), (head, 2), "TC, the question, and an OPT record");
        assert_eq!((&short[6..10], written(&zones, &message, head - 1)), (&[0; 4][..], None));
    }
    // The addresses of servers elsewhere in the zone are optional, so only they are left out.
    let message = question("away.example.test", Rtype::A, None);
    let whole = answered(&zones, &message, 4_096);
    let less = answered(&zones, &message, whole.len() - 1);
    assert_eq!((less[2] & 2, whole[11], less[11]), (0, 2, 1));
}

// Do the header and the OPT record of an answer have the values of the standards?
#[test]
fn headers_say_what_they_must() {
    let zones = zones(None);
    let mut message = question("www.example.test", Rtype::A, Some(0xc000));
    // CD and reserved bits.
    message[3] = 0xff;
    let answer = answered(&zones, &message, 4_096);
    assert_eq!((answer[2], answer[3]), (0x85, 0x00));
    assert_eq!(answer[answer.len() - 11..], *b"\0\0\x29\x04\xd0\0\0\xc0\0\0\0");
    // An EDNS version that does not exist.
    let version = message.len() - 5;
    message[version] = 1;
    let answer = answered(&zones, &message, 4_096);
    assert_eq!((answer[3] & 0xf, answer[answer.len() - 6], answer[6..10].to_vec()), (0, 1, vec![0; 4]), "BADVERS");
    let mut out = [0; 12];
    assert_eq!(reply::write_error(&message, Rcode::FormErr, &mut out), Some(HEADER_BYTES));
    assert_eq!(out, *b"\x12\x34\x81\x01\0\0\0\0\0\0\0\0");
    // Other classes are refused.
    let mut chaos = question("version.bind", Rtype::TXT, None);
    *chaos.last_mut().expect("a class") = 3;
    assert_eq!(answered(&zones, &chaos, 512)[3] & 0xf, 5);
}

// Do signatures have the TTL of the set that they cover (RFC 4034, 3)? Do proofs have the TTL of
// negative answers, the smaller of the SOA record's TTL and the number in it (RFC 2308, 5; RFC
// 9077)? Method: a zone in which every set has another TTL.
#[test]
fn ttls_are_those_of_the_standards() {
    for (soa, minimum) in [(400, 300), (200, 300)] {
        let soa_line = format!("@ {soa} SOA ns host 7 1 1 1 {minimum}\n@ 50 NS ns\nns 60 A 192.0.2.1\n");
        let lines = "www 70 A 192.0.2.2\nwww 90 AAAA 2001:db8::2\nalias 80 CNAME www\n*.star 110 TXT x\nsigned 120 NS ns\n\
            signed 130 DS 1 8 2 ab\nunsigned 140 NS ns\n";
        let zones = zone_of("z.test", &(soa_line + lines), Algorithm::Ed25519);
        let negative = soa.min(minimum);
        for (name, rtype, expected) in [
            ("z.test", Rtype::SOA, vec![(Rtype::SOA, soa)]),
            ("www.z.test", Rtype::A, vec![(Rtype::A, 70)]),
            ("alias.z.test", Rtype::AAAA, vec![(Rtype::CNAME, 80), (Rtype::AAAA, 90)]),
            ("a.star.z.test", Rtype::TXT, vec![(Rtype::TXT, 110)]),
            ("www.z.test", Rtype::NSEC, vec![(Rtype::NSEC, negative)]),
            ("www.z.test", Rtype::MX, vec![(Rtype::SOA, negative), (Rtype::NSEC, negative)]),
            ("no.z.test", Rtype::A, vec![(Rtype::SOA, negative), (Rtype::NSEC, negative)]),
            ("signed.z.test", Rtype::A, vec![(Rtype::NS, 120), (Rtype::DS, 130)]),
            ("unsigned.z.test", Rtype::A, vec![(Rtype::NS, 140), (Rtype::NSEC, negative)]),
        ] {
            let message = Message::from_octets(answered(&zones, &question(name, rtype, DO), 4_096)).expect("a message");
            let (_, answer, authority, _) = message.sections().expect("sections");
            let (mut sets, mut signatures) = (Vec::new(), Vec::new());
            for record in answer.chain(authority) {
                let record = record.expect("a record").into_record::<AllRecordData<_, ParsedName<_>>>();
                let record = record.expect("data").expect("every type");
                match record.data() {
                    AllRecordData::Rrsig(rrsig) => {
                        signatures.push((rrsig.type_covered(), record.ttl().as_secs(), rrsig.original_ttl().as_secs()));
                    }
                    _ => sets.push((record.rtype(), record.ttl().as_secs())),
                }
            }
            assert_eq!(sets, expected, "{name} {rtype}");
            // The child signs the records of a delegation. A signature covers the TTL in the zone.
            let original = |set, ttl| if set == Rtype::SOA { soa } else { ttl };
            let signed = expected.iter().filter(|(set, _)| *set != Rtype::NS);
            let signed: Vec<_> = signed.map(|(set, ttl)| (*set, *ttl, original(*set, *ttl))).collect();
            assert_eq!(signatures, signed, "{name} {rtype}");
        }
    }
}
