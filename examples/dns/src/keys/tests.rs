use super::*;
use std::os::unix::fs::PermissionsExt;

fn zone() -> Name {
    Name::parse(b"\x07example\x04test\0").expect("a name")
}

// Is a key found again by its zone and algorithm? Is its private half readable only for its owner?
#[test]
fn keys_are_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    for (algorithm, number) in [(Algorithm::Ed25519, 15), (Algorithm::P256, 13), (Algorithm::Rsa2048, 8)] {
        let made = Key::of_zone(&zone(), algorithm, Some(dir.path())).expect("a key");
        let found = Key::of_zone(&zone(), algorithm, Some(dir.path())).expect("the same key");
        assert_eq!((made.algorithm(), made.dnskey_data()), (number, found.dnskey_data()));
        let file = dir.path().join(format!("Kexample.test.+{number:03}+{:05}.private", made.tag()));
        assert_eq!(fs::metadata(file).expect("the file").permissions().mode() & 0o777, 0o600);
        let other = Key::of_zone(&zone(), algorithm, None).expect("a key");
        assert_ne!(other.dnskey_data(), made.dnskey_data(), "without a directory it is a new one");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("the directory").count(), 6);
}

// Does an error name the wrong file?
#[test]
fn wrong_files_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let key = || Key::of_zone(&zone(), Algorithm::Ed25519, Some(dir.path()));
    let made = key().expect("a key");
    let path = |end: &str| dir.path().join(format!("Kexample.test.+015+{end}"));
    let (private, public) = (path(&format!("{:05}.private", made.tag())), path(&format!("{:05}.key", made.tag())));
    fs::copy(&private, path("00001.private")).expect("copied");
    let error = format!("{:#}", key().expect_err("two keys"));
    assert!(error.contains("more than one key of example.test.") && error.contains("00001.private"), "{error}");
    fs::remove_file(path("00001.private")).expect("removed");
    fs::write(&public, "nothing").expect("written");
    let error = format!("{:#}", key().expect_err("no public key"));
    assert!(error.contains(&public.display().to_string()), "{error}");
    fs::write(&private, "nothing").expect("written");
    let error = format!("{:#}", key().expect_err("no private key"));
    assert!(error.contains(&private.display().to_string()), "{error}");
    let error = Key::of_zone(&zone(), Algorithm::Ed25519, Some(Path::new("/nowhere"))).expect_err("no directory");
    assert!(format!("{error:#}").contains("--key-dir /nowhere"), "{error:#}");
}

// Is the DS record as in RFC 4509, 2.3?
#[test]
fn ds_records_have_the_standards_digest() {
    let text = "dskey.example.com. 86400 IN DNSKEY 256 3 5 ( AQOeiiR0GOMYkDshWoSKz9Xz fwJr1AYtsmx3TGkJaNXVbfi/ \
        2pHm822aJ5iI9BMzNXxeYCmZ DRD99WYwYqUSdjMmmAphXdvx egXd/M5+X7OrzKBaMbCVdFLU Uh6DhweJBjEVv5f2wwjM9Xzc \
        nOf+EPbtG9DMBmADjFDc2w/r ljwvFw== )";
    let data: Vec<u8> = text
        .split_once("( ")
        .and_then(|(_, key)| key.strip_suffix(" )"))
        .map(|key| {
            let key: Vec<u8> = domain::utils::base64::decode(&key.replace(' ', "")).expect("base 64");
            [&[1, 0, 3, 5][..], &key].concat()
        })
        .expect("a key");
    let name = Name::parse(b"\x05dskey\x07example\x03com\0").expect("a name");
    let hex = "D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A";
    assert_eq!(ds_digest(&name, &data), hex);
}
