use super::*;
use etherparse::{IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};
use std::io::Write;

/// A frame of Ethernet with a datagram from port `from` to port `to`.
fn ethernet(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    between((1, from), (2, to), payload)
}

/// The last byte of a host's address, and a port.
type Socket = (u8, u16);

/// The same between two sockets.
fn between(from: Socket, to: Socket, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let packet = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([127, 0, 0, from.0], [127, 0, 0, to.0], 9);
    let packet = packet.udp(from.1, to.1);
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

/// A block of a pcapng file.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len() as u32).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, body, &length].concat()
}

/// What begins a pcapng file: a section, and an interface with this link and a clock of
/// nanoseconds.
fn section(link: u16) -> Vec<u8> {
    let header = [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8]].concat();
    [block(0x0a0d_0d0a, &header), interface(link)].concat()
}

fn interface(link: u16) -> Vec<u8> {
    let resolution = [9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
    block(1, &[&link.to_le_bytes()[..], &[0; 2], &[0, 0, 4, 0], &resolution].concat())
}

/// A frame of pcapng at a time in microseconds.
fn enhanced(interface: u32, at_us: u32, frame: &[u8]) -> Vec<u8> {
    let at_ns = 1_700_000_000_000_000_000 + u64::from(at_us) * 1_000;
    let [high, low] = [(at_ns >> 32) as u32, at_ns as u32].map(u32::to_le_bytes);
    let length = (frame.len() as u32).to_le_bytes();
    block(6, &[&interface.to_le_bytes(), &high, &low, &length, &length, &padded(frame)[..]].concat())
}

/// A frame of pcapng without a time.
fn simple(frame: &[u8]) -> Vec<u8> {
    block(3, &[&(frame.len() as u32).to_le_bytes()[..], &padded(frame)].concat())
}

fn padded(frame: &[u8]) -> Vec<u8> {
    [frame, &vec![0; frame.len().next_multiple_of(4) - frame.len()]].concat()
}

/// Frames and their times in microseconds as a pcapng file.
fn pcapng(link: u16, frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let frames = frames.iter().map(|(at_us, frame)| enhanced(0, *at_us, frame));
    [section(link)].into_iter().chain(frames).collect::<Vec<_>>().concat()
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
        // The upper bits of the link: each frame has its checksum of 4 bytes behind it.
        let checked = frames.clone().map(|(at, frame)| (at, [frame, vec![9; 4]].concat()));
        let checked = pcap(0xf400_0000 | u32::from(link), &checked, u32::to_le_bytes);
        for file in files.into_iter().chain([checked, pcapng(link, &frames)]) {
            assert_eq!(read(&file, "").map(|(read, _)| read), Ok(expected.clone()), "link {link}");
        }
    }
}

// Is it the port that is asked, unless one is named? Is all that is left out counted?
#[test]
fn one_port_is_taken_and_the_rest_is_told() {
    let mut fragment = ethernet(7_002, 53, b"part");
    let mut header = Ipv4Header::new(12, 9, IpNumber::UDP, [127, 0, 0, 1], [127, 0, 0, 2]).expect("it fits");
    (header.more_fragments, header.fragment_offset) = (true, IpFragOffset::try_new(0).expect("it fits"));
    fragment[14..34].copy_from_slice(&header.to_bytes());
    let cut = ethernet(7_002, 53, b"cut off")[..45].to_vec();
    // Whole, but its own length says more than that of IP.
    let mut wrong = ethernet(7_002, 53, b"wrong");
    wrong[38..40].copy_from_slice(&200_u16.to_be_bytes());
    let mut frames = vec![(0, ethernet(7_001, 53, b"ask")), (1, between((2, 53), (1, 7_001), b"told"))];
    let of = |frames: &[(u32, Vec<u8>)], port| read(&pcap(1, frames, u32::to_le_bytes), port);
    assert_eq!(of(&frames, "").expect("a port").0, [(0, 7_001, b"ask".to_vec())]);
    assert_eq!(of(&frames, ":port=7001").expect("a port").0, [(0, 53, b"told".to_vec())]);
    frames.extend([(2, fragment), (3, cut), (4, vec![0; 60]), (6, wrong), (5, between((2, 53), (1, 7_001), b"more"))]);
    let (read, told) = of(&frames, "").expect("a port");
    assert_eq!(read, [(0, 7_001, b"ask".to_vec())]);
    let left_out = "left out: 2 to other ports, 1 fragments, 1 cut off, 2 other frames";
    assert_eq!(told, format!(": 1 datagrams of 1 sources to port 53; {left_out}"));
}

// Which port is the server's? Method: who sends to whom, in the order of time.
#[test]
fn the_port_is_the_one_that_is_asked() {
    let of = |datagrams: &[(Socket, Socket)]| {
        let frames = (0..).zip(datagrams).map(|(at, (from, to))| (at, between(*from, *to, b"x")));
        let (read, told) = read(&pcap(1, &frames.collect::<Vec<_>>(), u32::to_le_bytes), "").expect("a port");
        let port = told.split(" to port ").nth(1).and_then(|rest| rest.split(';').next()).expect("a port");
        (port.parse::<u16>().expect("a number"), read.len())
    };
    let (client, near) = ((1, 50_000), (1, 5_000));
    let server = |port| (2, port);
    let [secure, quic, high] = [443, 4_433, 61_457].map(server);
    // A server that sends more than it gets.
    assert_eq!(of(&[(client, secure), (secure, client), (secure, client)]), (443, 1));
    assert_eq!(of(&[(client, high), (high, client), (high, client)]), (61_457, 1));
    assert_eq!(of(&[(near, server(1_812)), (server(1_812), near), (server(1_812), near)]), (1_812, 1));
    // The capture began between a request and its reply; there may be no request at all.
    assert_eq!(of(&[(quic, client), (client, quic), (quic, client)]), (4_433, 1));
    assert_eq!(of(&[(secure, (1, 53_129))]), (53_129, 1));
    let three = [(server(9_000), (1, 1_024)), ((1, 1_025), server(9_000)), ((1, 1_026), server(9_000))];
    assert_eq!(of(&three), (9_000, 2));
    // Answers from another port, as of TFTP, and from other hosts than the group that was asked.
    let transfer = [(client, server(69)), (server(40_445), client), (client, server(40_445))].into_iter();
    let transfer = transfer.chain([(server(40_445), client), (client, server(40_445))]).collect::<Vec<_>>();
    assert_eq!(of(&transfer), (40_445, 2));
    let group = [(near, (9, 1_900)), ((2, 1_900), near), ((3, 1_900), near), ((4, 1_900), near)];
    assert_eq!(of(&group), (1_900, 1));
    // One socket that asks several servers, the first of them as often as the others.
    let several = [1, 2, 3].map(|host| [(client, (host, 27_000 + u16::from(host))), ((host, 27_000), client)]);
    assert_eq!(of(several.as_flattened()), (27_001, 1));
    // Several clients on the server's own host, of which the capture saw one begin late.
    let own = |port| (2, port);
    let local = [(own(40_000), own(50_000)), (own(50_000), own(40_000))].into_iter();
    let local = local.chain((50_001..50_004).map(|port| (own(port), own(40_000)))).collect::<Vec<_>>();
    assert_eq!(of(&local), (40_000, 4));
    // Peers that use one port, and a request that comes twice.
    assert_eq!(of(&[((1, 123), (2, 123)), ((2, 123), (1, 123))]), (123, 2));
    assert_eq!(of(&[(client, quic), (client, quic), (high, client), (high, client)]), (4_433, 2));
}

// Is what is whole used, and the rest counted, wherever a file ends and whatever else it has?
#[test]
fn what_is_whole_is_used() {
    let frames = [(0, ethernet(7_001, 53, b"one")), (7, ethernet(7_002, 53, b"two"))];
    let [one, two] = [(0, 7_001, b"one".to_vec()), (7, 7_002, b"two".to_vec())];
    for (file, shortest) in [(pcap(1, &frames, u32::to_le_bytes), 24), (pcapng(1, &frames), section(1).len())] {
        let first = shortest + (file.len() - shortest) / 2;
        for length in shortest..file.len() {
            let seen = read(&file[..length], "");
            match length {
                _ if length < first => {
                    let (cut, ends) = if length == shortest { (0, "") } else { (1, "; it ends within a frame") };
                    let left_out = format!("0 fragments, {cut} cut off, 0 other frames{ends}");
                    assert_eq!(seen, Err(format!("it has no whole UDP datagram: {left_out}")), "{length} bytes");
                }
                _ => {
                    let (read, told) = seen.expect("a datagram");
                    assert_eq!(read, std::slice::from_ref(&one), "{length} bytes");
                    let end = if length == first { "0 cut off, 0 other frames" } else { "it ends within a frame" };
                    assert!(told.ends_with(end), "{length} bytes: {told}");
                }
            }
        }
    }
    // Frames without a time, of an interface that cannot be read or that is not there, and in a
    // block that is obsolete.
    let [first, second] = frames.map(|(_, frame)| frame);
    let mixed = [
        section(1),
        interface(147),
        enhanced(0, 0, &first),
        enhanced(1, 3, &first),
        enhanced(2, 4, &first),
        block(2, &[0; 20]),
        simple(&second),
    ];
    let (mixed, told) = read(&mixed.concat(), "").expect("datagrams");
    assert_eq!(mixed, [one, (3, two.1, two.2)]);
    assert!(told.ends_with("0 cut off, 3 other frames; 1 have no time, and take that of the frame before"), "{told}");
}

#[test]
fn what_is_no_capture_is_refused() {
    let file = pcap(1, &[(0, ethernet(7_001, 53, b"ask"))], u32::to_le_bytes);
    for (file, port, expected) in [
        (&file[..], ":port=54", "no UDP datagram to port 54"),
        (&file, ":port=0", "`0` is no port: write 1 to 65535, like /"),
        (&file[..file.len() - 1], "", "no whole UDP datagram: 0 fragments, 1 cut off, 0 other frames; it ends within"),
        (&file[..23], "", "it cannot be read: it ends within a frame"),
        (&file[..24], "", "it has no whole UDP datagram"),
        (b"", "", "write a pcap or pcapng file"),
        (b"www.example.com A\nwww.example.com A\n", "", "write a pcap or pcapng file"),
        (&pcap(147, &[(0, vec![0; 60])], u32::to_le_bytes), "", "link type 147: allowed are Ethernet, raw IP"),
        // A length of 4 GiB.
        (
            &[&file[..32], &[0xff; 8], &[0; 99]].concat(),
            "",
            "no whole UDP datagram: 0 fragments, 1 cut off, 0 other frames; a frame is longer than 1 MiB",
        ),
    ] {
        let error = read(file, port).expect_err(expected);
        assert!(error.contains(expected), "{error}");
    }
    assert!(!Capture::is_at("/nowhere") && !Capture::is_at("/dev/zero"));
}
