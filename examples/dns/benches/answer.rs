//! What does it cost to find and write an answer? Method: the questions of a list, one after the other on one thread,
//! from the question's bytes to the answer's. The quickest of 20 rounds counts. `cargo bench -p forebay-dns --bench
//! answer`.

use forebay::output::print;
use forebay::time::clock;
use forebay_dns::answer::Answer;
use forebay_dns::keys::Algorithm;
use forebay_dns::query::Query;
use forebay_dns::reply::Options;
use forebay_dns::zones::{Source, Zones};
use std::hint::black_box;
use std::io;
use std::path::Path;

const ROUNDS: usize = 20;

fn main() -> io::Result<()> {
    print(&format!("{:<44}{:>10}{:>8}\n", "question", "ns", "bytes"))?;
    let plain = zones(None);
    for (what, name, rtype) in [
        ("two addresses", "www", 1),
        ("name that does not exist", "no", 1),
        ("no such type", "www", 15),
        ("alias of an alias", "chain", 1),
        ("wildcard", "a.b.star", 1),
        ("delegation with addresses", "a.b.child", 1),
        ("six long texts", "big", 16),
    ] {
        row(what, &plain, &question(name, rtype, false), 20_000)?;
    }
    let signed = zones(Some(Algorithm::Ed25519));
    row("two addresses, their signature is known", &signed, &question("www", 1, true), 20_000)?;
    row("no such name, the signatures are known", &signed, &question("no", 1, true), 20_000)?;
    for (algorithm, count) in [(Algorithm::Ed25519, 500), (Algorithm::P256, 500), (Algorithm::Rsa2048, 50)] {
        let signed = zones(Some(algorithm));
        let mut number = 0;
        let quickest = quickest(count, || {
            number += 1;
            answered(&signed, &question(&format!("x{number}.star"), 1, true))
        });
        line(&format!("a signature to be made, {algorithm:?}"), quickest)?;
    }
    Ok(())
}

fn zones(algorithm: Option<Algorithm>) -> Zones {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("example.zone");
    let source = Source::parse(&format!("example.test={}", file.display())).expect("a zone");
    let signed = algorithm.map(|algorithm| source.clone().signed(algorithm, None, 100_000).expect("a key"));
    Zones::load(&[signed.unwrap_or(source)]).expect("the zone")
}

fn question(name: &str, rtype: u8, dnssec_ok: bool) -> Vec<u8> {
    let mut message = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".to_vec();
    for label in name.split('.').chain(["example", "test", ""]) {
        message.push(label.len() as u8);
        message.extend(label.as_bytes());
    }
    message.extend([0, rtype, 0, 1]);
    if dnssec_ok {
        message[11] = 1;
        message.extend(b"\0\0\x29\x10\0\0\0\x80\0\0\0");
    }
    message
}

/// Length of the answer.
fn answered(zones: &Zones, message: &[u8]) -> usize {
    let query = Query::parse(message).expect("a question");
    let mut answer = Answer::find(zones, &query, 1_800_000_000);
    while let Some(index) = answer.unsigned() {
        answer.sign(index);
    }
    let mut out = [0; 1_232];
    answer.write(&Options { payload: 1_232, cookie: None }, black_box(&mut out)).expect("room")
}

fn row(what: &str, zones: &Zones, message: &[u8], count: u32) -> io::Result<()> {
    line(what, quickest(count, || answered(zones, black_box(message))))
}

/// Nanoseconds for one answer in the quickest round, and the length of the last one.
fn quickest(count: u32, mut answer: impl FnMut() -> usize) -> (f64, usize) {
    let mut length = 0;
    let mut round = || {
        let began = clock::now();
        (0..count).for_each(|_| length = answer());
        clock::now().minus(began).as_secs_f64() * 1e9 / f64::from(count)
    };
    let quickest = (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min);
    (quickest, length)
}

fn line(what: &str, (nanoseconds, length): (f64, usize)) -> io::Result<()> {
    print(&format!("{what:<44}{nanoseconds:>10.0}{length:>8}\n"))
}
