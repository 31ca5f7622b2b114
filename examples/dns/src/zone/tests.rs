use super::*;
use std::fs;
use std::path::Path;

fn name(text: &str) -> Name {
    Name::parse(domain::base::Name::<Vec<u8>>::vec_from_str(text).expect("a name").as_slice()).expect("a name")
}

/// A zone with an SOA record, an NS record and then `lines`.
fn zone(lines: &str) -> Result<Zone, String> {
    let text = format!("$TTL 60\n@ SOA ns host 7 1 1 1 30\n@ NS ns\nns A 192.0.2.1\n{lines}\n");
    from_text(&text)
}

fn from_text(text: &str) -> Result<Zone, String> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), text).expect("written");
    load(&name("z.test."), file.path(), None).map_err(|error| error.to_string())
}

// Is each file that cannot be served refused with one line that says where and why?
#[test]
fn what_cannot_be_served_is_refused() {
    let soa = "$TTL 60\n@ SOA ns host 7 1 1 1 30\n";
    for (text, problem) in [
        ("", "one SOA record, at its apex"),
        (soa, "an NS record at its apex"),
        (&format!("{soa}@ SOA ns host 8 1 1 1 30\n"), "one SOA record"),
        (&format!("{soa}a SOA ns host 7 1 1 1 30\n"), "a.z.test. SOA: only the apex"),
        (&format!("{soa}@ NS ns\n\na A 192.0.2\n"), "): line 5: expected IPv4 address: a A 192.0.2"),
        (&format!("{soa}a.example. A 192.0.2.1\n"), "a.example. A: does not belong to the zone"),
        (&format!("{soa}a CNAME b\na A 192.0.2.1\n"), "a.z.test. CNAME: a name with a CNAME record can have no"),
        (&format!("{soa}a CNAME b\na CNAME c\n"), "a.z.test. CNAME: there is more than one"),
        (&format!("{soa}a DNAME b\n"), "a.z.test. DNAME: DNAME records are not served"),
        (&format!("{soa}*.a NS b\n"), "*.a.z.test. NS: a wildcard cannot be delegated"),
        (&format!("{soa}@ DS 1 8 2 ab\n"), "z.test. DS: stands in the parent's zone"),
        (&format!("{soa}a NSEC b A\n"), "a.z.test. NSEC: the zone is signed already"),
        (&format!("{soa}a TYPE200 \\# 0\n"), "is no type that records can have"),
        (&format!("{soa}a MX \\# 1 00\n"), "line 3: a.z.test. MX: the data is not that of the type: a MX \\# 1 00"),
        (&format!("{soa}a A (\n 192.0.2.1\n"), "line 3: a parenthesis is not closed: a A 192.0.2.1"),
        (&format!("{soa}a A )\n"), "line 3: a parenthesis was not opened: a A"),
        (&format!("{soa}a TXT \"x\n"), "line 3: a quote is not closed: a TXT"),
        (&format!("{soa}a 1x A 192.0.2.1\n"), "line 3: expected rtype: a 1x A"),
        (&format!("{soa}a TXT x\n\n(\na LOC 52 N\n)"), "line 5: expected longitude: a LOC 52 N"),
        (&format!("{soa}a HIP 2 00 AA==\n"), "line 3: unknown record type with concrete data: a HIP"),
        (&format!("{soa}$INCLUDE nowhere\n"), "nowhere): No such file"),
    ] {
        let error = from_text(text).err().unwrap_or_else(|| panic!("served: {text}"));
        assert!(error.starts_with("zone z.test. (") && error.contains(problem), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let huge: String = (0..250).map(|n| format!("a TXT \"{n:0>250}\"\n")).collect();
    assert!(zone(&huge).expect_err("refused").contains("a.z.test. TXT: is too large to serve"));
    let error = load(&name("z.test."), Path::new("/nowhere/at/all"), None).expect_err("refused").to_string();
    assert!(error.contains("/nowhere/at/all") && error.contains("No such file"), "{error}");
}

// Are included files read with their own origin, and does a circle of them end?
#[test]
fn files_include_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    write("main", "$TTL 60\n@ SOA ns host 7 1 1 1 30\n@ NS ns\n$INCLUDE other sub.z.test.\nafter A 192.0.2.2\n");
    write("other", "a A 192.0.2.1\n");
    let load = || load(&name("z.test."), &dir.path().join("main"), None).map_err(|error| error.to_string());
    let zone = load().expect("a zone");
    for there in ["a.sub.z.test.", "after.z.test."] {
        let Place::Node(node) = zone.search(name(there).as_bytes(), Rtype::A) else { panic!("no {there}") };
        assert_eq!(node.set(Rtype::A).map(|set| set.ttl), Some(60), "the TTL of the file that includes");
    }
    write("other", "$INCLUDE other\n");
    assert!(load().expect_err("refused").contains("other): line 1: more than 8 files deep: $INCLUDE other"));
}

// Are the records of a set sorted, without duplicates, and with one TTL? Do their names end with
// pointers to the apex?
#[test]
fn sets_are_made_ready() {
    let zone = zone("m 90 MX 10 A.mail\nm MX 5 b.example.\nm MX 10 a.mail\nm MX 7 @").expect("a zone");
    let Place::Node(node) = zone.search(name("m.z.test.").as_bytes(), Rtype::MX) else { panic!("not found") };
    let set = node.set(Rtype::MX).expect("a set");
    assert_eq!((set.count, set.ttl), (3, 60));
    assert!(set.canonical.is_sorted() && set.canonical[2].ends_with(b"\x01a\x04mail\x01z\x04test\0"));
    let mut wire = vec![0; set.len()];
    set.write(0x0c, 0x0e, &mut wire);
    assert_eq!(wire[..12], *b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x0d");
    assert_eq!(wire[12..25], *b"\0\x05\x01b\x07example\0");
    assert_eq!(wire[25..41], *b"\xc0\x0c\0\x0f\0\x01\0\0\0\x3c\0\x04\0\x07\xc0\x0e");
    // The data has capitals as in the file.
    assert_eq!(wire[41 + 12..], *b"\0\x0a\x01A\x04mail\xc0\x0e");
}

// Is each wrong text of a type that `domain` does not read refused, and is wrong data in digits?
#[test]
fn wrong_data_is_refused() {
    for (line, problem) in [
        ("KX 10", "unexpected end of entry"),
        ("KX 65536 b", "decimal number overflow"),
        ("KX 10 b c", "trailing data"),
        ("KX 10 b..c", "expected domain name"),
        ("KEY 256 3 RSASHA2 AAAA", "expected decimal number"),
        ("KEY 256 3 5", "unexpected end of entry"),
        ("CERT NONE 0 0 AAAA", "expected decimal number"),
        ("CERT 1 0 0 AAA", "incomplete"),
        ("SMIMEA 3 0 0 012", "uneven number of hex digits"),
        ("SPF", "unexpected end of entry"),
        ("NID 10 0014:4fff:ff20", "expected groups of hexadecimal digits"),
        ("NID 10 00014:4fff:ff20:ee64", "expected groups"),
        ("EUI48 00:00:5e:00:53:2a", "expected groups"),
        ("EUI64 +0-00-5e-ef-10-00-00-2a", "expected groups"),
        ("L32 10 10.1.2", "expected IPv4 address"),
        ("APL 1:10.0.0.0/33", "expected 1:IPv4/length or 2:IPv6/length"),
        ("APL 3:10.0.0.0/8", "expected 1:"),
        ("CSYNC 1 2 A NOTYPE", "expected Rtype"),
        ("NXT b A TYPE128", "expected types below 128"),
        ("NSAP 4700", "expected 0x and hexadecimal digits"),
        ("SIG A 5 3 60 20301301000000 1 1 z. AAAA", "illegal signature time"),
        ("LOC 91 N 0 E 0", "expected latitude"),
        ("LOC 42 60 N 0 E 0", "expected latitude"),
        ("LOC 42 0 1.2345 N 0 E 0", "expected latitude"),
        ("LOC 42 N 181 E 0", "expected longitude"),
        ("LOC 42 N 1 N 0", "expected longitude"),
        ("LOC 42 N 1 E", "expected altitude in metres"),
        ("LOC 42 N 1 E -100000.01m", "expected altitude"),
        ("LOC 42 N 1 E 42849672.96m", "expected altitude"),
        ("LOC 42 N 1 E 0 90000000.01m", "expected size or precision in metres"),
        ("LOC 42 N 1 E 0 -1m", "expected size"),
        ("LOC 42 N 1 E 0 1 1 1 1", "trailing data"),
        ("KX \\# 2 000a", "the data is not that of the type"),
        ("KX \\# 6 000a01420000", "the data is not that of the type"),
        ("EUI48 \\# 5 00005e0053", "the data is not that of the type"),
        ("SPF \\# 1 01", "the data is not that of the type"),
        ("APL \\# 4 00010801", "the data is not that of the type"),
    ] {
        let error = zone(&format!("a {line}")).err().unwrap_or_else(|| panic!("served: {line}"));
        assert!(error.contains("line 5: ") && error.contains(&format!(": {problem}")), "{line}: {error}");
    }
}

// Do signatures cover names in lower case in just those types where RFC 4034, 6.2, says so?
#[test]
fn signed_names_are_in_lower_case() {
    for (rtype, line, covered) in [
        (Rtype::AFSDB, "1 B.C.", &b"\0\x01\x01b\x01c\0"[..]),
        (Rtype::RT, "1 B.C.", b"\0\x01\x01b\x01c\0"),
        (Rtype::KX, "1 B.C.", b"\0\x01\x01b\x01c\0"),
        (Rtype::KX, "\\# 7 0001 0142 0143 00", b"\0\x01\x01b\x01c\0"),
        (Rtype::PX, "1 B. C.", b"\0\x01\x01b\0\x01c\0"),
        (Rtype::SIG, "A 65 66 67 68 69 16705 B. QUFB", b"\0\x01AB\0\0\0C\0\0\0D\0\0\0EAA\x01b\0AAA"),
        (Rtype::NXT, "B. A DHCID", b"\x01b\0\x40\0\0\0\0\0\x40"),
        (Rtype::LP, "1 B.C.", b"\0\x01\x01B\x01C\0"),
        (Rtype::URI, "1 2 B.C.", b"\0\x01\0\x02B.C."),
        (Rtype::EUI48, "41-42-43-44-45-46", b"ABCDEF"),
    ] {
        let zone = zone(&format!("a {rtype} {line}")).expect("a zone");
        let Place::Node(node) = zone.search(name("a.z.test.").as_bytes(), rtype) else { panic!("not found") };
        assert_eq!(&*node.set(rtype).expect("a set").canonical[0], covered, "{rtype}");
    }
}
