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
        (&format!("{soa}a TXT x\n\n(\na LOC 52 N\n)"), "line 5: unknown record type with concrete data: a LOC 52 N"),
        (&format!("{soa}a KEY 256 3 5 aaaa\n"), "line 3: unknown record type with concrete data: a KEY"),
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
