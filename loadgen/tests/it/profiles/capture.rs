//! Are the datagrams of a capture sent as they were, at its times or at a rate? Method: a server
//! that notes what comes.

use crate::faulty::*;
use etherparse::PacketBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, channel};
use support::generator::{run, serve};

const COUNT: u32 = 20;

/// A capture of datagrams, one each 10 ms, from two ports by turns, and the replies.
pub(super) fn capture() -> tempfile::NamedTempFile {
    // Link type 101: frames begin with the header of IP.
    let mut bytes: Vec<u8> = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    for number in 0..COUNT {
        let asks = ([10, 0, 0, 1], [10, 0, 0, 2], 7_000 + number as u16 % 2, 53);
        for (source, target, from, to) in [asks, (asks.1, asks.0, asks.3, asks.2)] {
            let mut frame = Vec::new();
            let packet = PacketBuilder::ipv4(source, target, 9).udp(from, to);
            packet.write(&mut frame, format!("{to} {number}").as_bytes()).expect("it fits");
            let length = frame.len() as u32;
            bytes.extend([1, number * 10_000, length, length].map(u32::to_le_bytes).concat());
            bytes.extend(frame);
        }
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("written");
    file
}

/// A server that answers, and what it hears.
fn listening() -> (SocketAddr, Receiver<(Nanos, SocketAddr, String)>) {
    let (heard, hearing) = channel();
    let server = serve(move |socket, datagram, client| {
        drop(heard.send((clock::now(), client, String::from_utf8_lossy(datagram).into_owned())));
        drop(socket.send_to(b"yes", client));
    });
    (server, hearing)
}

#[test]
fn a_capture_is_replayed_at_its_times_and_over_its_flows() {
    let (file, (server, hearing)) = (capture(), listening());
    let began = clock::now();
    let run = run(server, &format!("--replay {} --speed 0.5 --percentile 50", file.path().display()));
    assert_eq!(number(&run.report, "/fates/answered"), f64::from(COUNT), "{}", run.reasons());
    let heard: Vec<_> = hearing.try_iter().collect();
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    heard.iter().for_each(|(_, client, payload)| flows.entry(*client).or_default().push(payload.clone()));
    // Each flow is in order. What is late is sent together, flow by flow.
    let payloads: BTreeSet<_> = flows.into_values().collect();
    let of = |first| (first..COUNT).step_by(2).map(|number| format!("53 {number}")).collect::<Vec<_>>();
    assert_eq!(payloads, BTreeSet::from([of(0), of(1)]));
    // 19 gaps of 20 ms, of which none is sent early.
    let took = heard.iter().map(|(at, ..)| at.minus(began)).max();
    assert!(took >= Some(Nanos::from_millis(380)), "{took:?}");
    let offered = run.report["workload"].as_str().expect("a name");
    assert!(offered.ends_with(
        ": 20 datagrams of 2 sources to port 53; left out: 20 to other ports, 0 fragments, 0 cut off, 0 other frames"
    ));
}

#[test]
fn a_capture_is_sent_at_a_rate_over_and_over() {
    let file = capture();
    let path = file.path().display();
    let flags = "--rate 200 --warmup 0s --duration 300ms --percentile 50 --arrivals constant";
    // Every second datagram went to that port.
    let expected: Vec<_> = (1..COUNT).step_by(2).map(|number| format!("7001 {number}")).cycle().take(59).collect();
    for (flows, is_ordered) in [("--flows 1", true), ("", false)] {
        let (server, hearing) = listening();
        run(server, &format!("--profile pcap={path}:port=7001 {flags} {flows}"));
        let mut payloads: Vec<String> = hearing.try_iter().map(|(.., payload)| payload).collect();
        let mut expected = expected.clone();
        // What is late is sent together, flow by flow.
        if !is_ordered {
            payloads.sort();
            expected.sort();
        }
        assert_eq!(payloads, expected);
    }
}

#[test]
fn a_capture_needs_no_server_of_the_bench_protocol() {
    let file = capture();
    let path = file.path().display();
    for (flags, expected) in [
        (format!("--replay {path} --retries 1"), "--retries needs the bench protocol, and --replay sends another"),
        (format!("--replay {path} --profile ntp"), "--replay needs the bench protocol, and --profile sends another"),
        (format!("--replay {path}:port=9"), "has no UDP datagram to port 9"),
        (format!("--replay {path} --rate 9"), "cannot be used with"),
        ("--profile pcap=/dev/null --rate 9".to_owned(), "write a pcap or pcapng file"),
    ] {
        let (code, _, stderr) = loadgen(&format!("run {flags}"));
        assert!(code == Some(2) && stderr.contains(expected), "{flags}: {stderr}");
    }
}
