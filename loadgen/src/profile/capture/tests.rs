use super::*;
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};
use std::io::Write;

/// A frame of Ethernet with a datagram from port `from` to port `to`.
fn ethernet(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([127, 0, 0, 1], [127, 0, 0, 2], 9).udp(from, to);
    packet.write(&mut frame, payload).expect("it fits");
    frame
}

/// Frames and their times in microseconds as a pcap file in this order of bytes.
fn pcap(link: u32, frames: &[(u32, Vec<u8>)], order: fn(u32) -> [u8; 4]) -> Vec<u8> {
    // Version 2.4 is two numbers of 16 bits.
    let version = if order(1) == 1_u32.to_le_bytes() { 0x0004_0002 } else { 0x0002_0004 };
    let mut file: Vec<u8> = [0xa1b2_c3d4, version, 0, 0, 65_535, link].into_iter().flat_map(order).collect();
    for (at_us, frame) in frames {
        let length = frame.len() as u32;
        file.extend([1_700_000_000 + at_us / 1_000_000, at_us % 1_000_000, length, length].into_iter().flat_map(order));
        file.extend(frame);
    }
    file
}

/// The same as a pcapng file, whose clock has nanoseconds.
fn pcapng(link: u16, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = (12 + body.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, body, &length].concat()
    };
    let header = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    let resolution = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    let interface = [&link.to_le_bytes()[..], &[0; 2], &[0, 0, 4, 0], &resolution].concat();
    let mut file = [block(0x0a0d_0d0a, &header), block(1, &interface)].concat();
    for (at_us, frame) in frames {
        let at_ns = 1_700_000_000_000_000_000 + u64::from(*at_us) * 1_000;
        let [high, low] = [(at_ns >> 32) as u32, at_ns as u32].map(u32::to_le_bytes);
        let length = (frame.len() as u32).to_le_bytes();
        let rest = vec![0; frame.len().next_multiple_of(4) - frame.len()];
        file.extend(block(6, &[&[0; 4], &high, &low, &length, &length, &frame[..], &rest].concat()));
    }
    file
}

/// Time in microseconds, source port and payload.
type Seen = (u64, u16, Vec<u8>);
/// A link, and what makes a frame of a payload.
type Framed<'a> = (u16, &'a dyn Fn(&[u8]) -> Vec<u8>);

/// What is read of `file` with `port`, and what is told of it.
fn read(file: &[u8], port: &str) -> Result<(Vec<Seen>, String), String> {
    let mut path = tempfile::NamedTempFile::new().expect("a file");
    path.write_all(file).expect("written");
    let text = format!("{}{port}", path.path().display());
    let capture = Capture::read(&text)?;
    assert!(Capture::is_at(&text));
    let of = |one: &Datagram| (one.at.get() / 1_000, one.source.port(), one.payload.to_vec());
    Ok((capture.datagrams.iter().map(of).collect(), capture.told))
}

// Are datagrams read from every kind of file and link, over both versions of IP, with a VLAN, in
// the order of their times?
#[test]
fn datagrams_are_read_whatever_they_travelled_over() {
    let expected = vec![(0, 7_001, b"one".to_vec()), (2_000_000, 7_001, b"two".to_vec())];
    let v4 = |payload: &[u8]| ethernet(7_001, 53, payload)[14..].to_vec();
    let v6 = |payload: &[u8]| {
        let mut frame = Vec::new();
        let packet = PacketBuilder::ethernet2([1; 6], [2; 6]).single_vlan(5.try_into().expect("a number"));
        packet.ipv6([1; 16], [2; 16], 9).udp(7_001, 53).write(&mut frame, payload).expect("it fits");
        frame
    };
    let headed = |head: &[u8], payload: &[u8]| [head, &v4(payload)].concat();
    let cooked = [&[0; 14][..], &[8, 0]].concat();
    let cooked2 = [&[8, 0][..], &[0; 18]].concat();
    let kinds: [Framed<'_>; 8] = [
        (1, &|payload| ethernet(7_001, 53, payload)),
        (1, &v6),
        (101, &v4),
        (101, &|payload| v6(payload)[18..].to_vec()),
        (0, &|payload| headed(&[2, 0, 0, 0], payload)),
        (108, &|payload| headed(&[0, 0, 0, 2], payload)),
        (113, &|payload| headed(&cooked, payload)),
        (276, &|payload| headed(&cooked2, payload)),
    ];
    for (link, frame) in kinds {
        let frames = [(2_500_000, frame(b"two")), (500_000, frame(b"one"))];
        let files = [pcap(link.into(), &frames, u32::to_le_bytes), pcap(link.into(), &frames, u32::to_be_bytes)];
        for file in files.into_iter().chain([pcapng(link, &frames)]) {
            assert_eq!(read(&file, "").map(|(read, _)| read), Ok(expected.clone()), "link {link}");
        }
    }
}

// Is it the port of most, or of the first of two that have as many, unless one is named? Is all
// that is left out counted?
#[test]
fn one_port_is_taken_and_the_rest_is_told() {
    let mut fragment = ethernet(7_002, 53, b"part");
    let mut header = Ipv4Header::new(12, 9, IpNumber::UDP, [127, 0, 0, 1], [127, 0, 0, 2]).expect("it fits");
    (header.more_fragments, header.fragment_offset) = (true, IpFragOffset::try_new(0).expect("it fits"));
    fragment[14..34].copy_from_slice(&header.to_bytes());
    let cut = ethernet(7_002, 53, b"cut off")[..45].to_vec();
    let mut frames = vec![(0, ethernet(7_001, 53, b"ask")), (1, ethernet(53, 7_001, b"told"))];
    let of = |frames: &[(u32, Vec<u8>)], port| read(&pcap(1, frames, u32::to_le_bytes), port);
    assert_eq!(of(&frames, "").expect("a port").0, [(0, 7_001, b"ask".to_vec())]);
    assert_eq!(of(&frames, ":port=7001").expect("a port").0, [(0, 53, b"told".to_vec())]);
    frames.extend([(2, fragment), (3, cut), (4, vec![0; 60]), (5, ethernet(53, 7_001, b"more"))]);
    let (read, told) = of(&frames, "").expect("a port");
    assert_eq!(read.iter().map(|(at, ..)| *at).collect::<Vec<_>>(), [0, 4]);
    assert_eq!(told, ": 2 datagrams to port 7001; left out: 1 to other ports, 1 fragments, 2 other frames");
}

#[test]
fn what_is_no_capture_is_refused() {
    let file = pcap(1, &[(0, ethernet(7_001, 53, b"ask"))], u32::to_le_bytes);
    for (file, port, expected) in [
        (&file[..], ":port=54", "no UDP datagram to port 54"),
        (&file, ":port=0", "`0` is no port: write 1 to 65535, like /"),
        (&file[..file.len() - 1], "", "it cannot be read: "),
        (&file[..24], "", "it has no whole UDP datagram"),
        (b"", "", "write a pcap or pcapng file"),
        (b"www.example.com A\nwww.example.com A\n", "", "write a pcap or pcapng file"),
        (&pcap(147, &[(0, vec![0; 60])], u32::to_le_bytes), "", "link type 147: allowed are Ethernet, raw IP"),
        // A length of 4 GiB.
        (&[&file[..32], &[0xff; 8], &[0; 99]].concat(), "", "it cannot be read: "),
    ] {
        let error = read(file, port).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
    assert!(!Capture::is_at("/nowhere") && !Capture::is_at("/dev/zero"));
}
