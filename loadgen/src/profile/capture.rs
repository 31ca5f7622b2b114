//! Reads captures of packets (pcap and pcapng): the UDP datagrams that go to one port.

mod asked;

use crate::lab::workload::lines;
use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, NetSlice, SlicedPacket, TransportSlice};
use forebay::time::Nanos;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use std::collections::HashSet;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// The largest block to read. A frame of Linux has at most 256 KiB.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The most payload that is held.
const BYTES_MAX: usize = 1 << 30;
/// As many as a schedule may hold.
const DATAGRAMS_MAX: usize = 50_000_000;
/// The first bytes of a file: pcapng, then pcap with microseconds and with nanoseconds.
const MAGIC: [u32; 3] = [0x0a0d_0d0a, 0xa1b2_c3d4, 0xa1b2_3c4d];
/// The bits of a pcap file's link that are its type. The others say how long the checksum behind a
/// frame is.
const LINK_TYPE: i32 = 0xffff;
/// The type of an obsolete block of pcapng that holds a frame.
const PACKET_BLOCK: u32 = 2;

/// The datagrams of a capture that go to one port.
#[derive(Debug)]
pub(crate) struct Capture {
    /// In the order of their times, the first at 0.
    pub(crate) datagrams: Vec<Datagram>,
    /// What was read and left out, for people.
    pub(crate) told: String,
    /// Whether at least one of them has a time.
    pub(crate) is_timed: bool,
}

#[derive(Debug)]
pub(crate) struct Datagram {
    /// If its frame has no time, that of the frame before.
    pub(crate) at: Nanos,
    is_timed: bool,
    pub(crate) source: SocketAddr,
    target: SocketAddr,
    pub(crate) payload: Box<[u8]>,
}

/// How the frames of an interface are read: the type of their link, and ticks and seconds of their
/// times.
struct Interface {
    link: i32,
    ticks_per_second: u64,
    offset_s: i64,
}

/// Why a frame gives no datagram.
enum Unusable {
    Fragment,
    /// It has less of a datagram than was sent.
    Cut,
    /// The type of its link cannot be read.
    Link(i32),
    Other,
}

/// What a file has beside whole datagrams.
#[derive(Default)]
struct LeftOut {
    fragments: u64,
    cut: u64,
    others: u64,
    /// The type of the first link that cannot be read.
    link: Option<i32>,
    /// Why the file was not read to its end.
    end: Option<&'static str>,
}

/// The path and the port in `PATH[:port=N]`.
fn parts(text: &str) -> Result<(&Path, Option<u16>), String> {
    let Some((path, port)) = text.rsplit_once(":port=") else { return Ok((Path::new(text), None)) };
    match port.parse() {
        Ok(port @ 1..) => Ok((Path::new(path), Some(port))),
        _ => Err(format!("`{port}` is no port: write 1 to 65535, like {path}:port=53")),
    }
}

impl Capture {
    /// Whether `text`, as [`Capture::read`] takes it, names a capture.
    pub(crate) fn is_at(text: &str) -> bool {
        let mut magic = [0; 4];
        let file = parts(text).and_then(|(path, _)| lines::open(path));
        file.is_ok_and(|mut file| file.read_exact(&mut magic).is_ok())
            && (MAGIC.contains(&u32::from_be_bytes(magic)) || MAGIC.contains(&u32::from_le_bytes(magic)))
    }

    /// Reads the capture of `text`, `PATH[:port=N]`. Without a port it is the one that most
    /// requests go to.
    ///
    /// # Errors
    /// If it is no capture, too large, or has no datagram to the port.
    pub(crate) fn read(text: &str) -> Result<Capture, String> {
        let (path, port) = parts(text)?;
        let (mut datagrams, left_out) = all(lines::open(path)?)?;
        datagrams.sort_by_key(|datagram| datagram.at);
        let port = port.or_else(|| asked::port(&datagrams)).ok_or_else(|| left_out.without_datagrams())?;
        let read = datagrams.len();
        datagrams.retain(|datagram| datagram.target.port() == port);
        let first = datagrams.first().ok_or_else(|| format!("it has no UDP datagram to port {port}"))?.at;
        datagrams.iter_mut().for_each(|datagram| datagram.at = datagram.at.minus(first));
        let told = told(&datagrams, port, read - datagrams.len(), &left_out);
        Ok(Capture { is_timed: datagrams.iter().any(|datagram| datagram.is_timed), datagrams, told })
    }
}

/// What was read, and what was left out.
fn told(datagrams: &[Datagram], port: u16, other_ports: usize, left_out: &LeftOut) -> String {
    let sources = datagrams.iter().map(|datagram| datagram.source).collect::<HashSet<_>>().len();
    let untimed = datagrams.iter().filter(|datagram| !datagram.is_timed).count();
    let (count, all_left_out) = (datagrams.len(), left_out.said());
    let untimed = match untimed {
        0 => String::new(),
        _ => format!("; {untimed} have no time, and take that of the frame before"),
    };
    format!(
        ": {count} datagrams of {sources} sources to port {port}; left out: {other_ports} to other ports, {all_left_out}{untimed}"
    )
}

impl LeftOut {
    fn count(&mut self, why: &Unusable) {
        *match why {
            Unusable::Fragment => &mut self.fragments,
            Unusable::Cut => &mut self.cut,
            Unusable::Link(_) | Unusable::Other => &mut self.others,
        } += 1;
        if let (Unusable::Link(link), None) = (why, self.link) {
            self.link = Some(*link);
        }
    }

    fn said(&self) -> String {
        let LeftOut { fragments, cut, others, end, .. } = self;
        let end = end.map(|end| format!("; {end}")).unwrap_or_default();
        format!("{fragments} fragments, {cut} cut off, {others} other frames{end}")
    }

    /// The error of a file that has no whole datagram.
    fn without_datagrams(&self) -> String {
        match self.link {
            Some(link) => format!(
                "its frames are of link type {link}: allowed are Ethernet, raw IP, Linux cooked (SLL, SLL2) and loopback"
            ),
            None => format!("it has no whole UDP datagram: {}", self.said()),
        }
    }
}

/// All UDP datagrams of `file` up to its end, or to where it cannot be read.
fn all(file: impl Read + Send) -> Result<(Vec<Datagram>, LeftOut), String> {
    let unread = |error: PcapError<&[u8]>| format!("it cannot be read: {}; write a pcap or pcapng file", cause(&error));
    let mut reader = create_reader(BLOCK_BYTES_MAX, file).map_err(unread)?;
    let (mut interfaces, mut datagrams, mut bytes) = (Vec::<Interface>::new(), Vec::<Datagram>::new(), 0);
    let (mut left_out, mut time) = (LeftOut::default(), Nanos::ZERO);
    loop {
        let (length, block) = match reader.next() {
            Ok(read) => read,
            Err(PcapError::Eof) => return Ok((datagrams, left_out)),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(unread)?;
                continue;
            }
            Err(PcapError::ReadError) => return Err(unread(PcapError::ReadError)),
            Err(error) => {
                left_out.count(&Unusable::Cut);
                left_out.end = Some(cause(&error));
                return Ok((datagrams, left_out));
            }
        };
        if let Some(Frame { interface, ticks, bytes: frame }) = frame(&block, &mut interfaces) {
            let interface = interfaces.get(interface);
            time = interface.zip(ticks).map_or(time, |(interface, ticks)| interface.time(ticks));
            match interface.ok_or(Unusable::Other).and_then(|interface| datagram(interface.link, frame)) {
                Ok((source, target, payload)) => {
                    bytes += payload.len();
                    datagrams.push(Datagram { at: time, is_timed: ticks.is_some(), source, target, payload });
                }
                Err(why) => left_out.count(&why),
            }
            if bytes > BYTES_MAX || datagrams.len() > DATAGRAMS_MAX {
                return Err(format!("it has more than {DATAGRAMS_MAX} datagrams or 1 GiB of payload"));
            }
        }
        reader.consume(length);
    }
}

/// Why a file cannot be read on. The library would print all that it holds of the file.
fn cause(error: &PcapError<&[u8]>) -> &'static str {
    match error {
        PcapError::Eof | PcapError::UnexpectedEof | PcapError::Incomplete(_) => "it ends within a frame",
        PcapError::BufferTooSmall => "a frame is longer than 1 MiB",
        PcapError::ReadError => "reading failed",
        PcapError::HeaderNotRecognized => "its first bytes are of another kind of file",
        PcapError::NomError(..) | PcapError::OwnedNomError(..) => "a part of it contradicts itself",
    }
}

/// A frame of a file.
struct Frame<'a> {
    /// The number of its interface.
    interface: usize,
    /// Its time on the interface's clock, if the file has it.
    ticks: Option<u64>,
    bytes: &'a [u8],
}

/// The frame that `block` holds, if it holds one. Otherwise notes what it says of interfaces.
fn frame<'a>(block: &'a PcapBlockOwned<'_>, interfaces: &mut Vec<Interface>) -> Option<Frame<'a>> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let ticks_per_second = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            interfaces.push(Interface { link: header.network.0 & LINK_TYPE, ticks_per_second, offset_s: 0 });
        }
        PcapBlockOwned::Legacy(frame) => {
            let ticks = u64::from(frame.ts_sec) * interfaces.first()?.ticks_per_second + u64::from(frame.ts_usec);
            return Some(Frame { interface: 0, ticks: Some(ticks), bytes: frame.data });
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => interfaces.push(Interface {
            link: interface.linktype.0,
            ticks_per_second: interface.ts_resolution().unwrap_or(1_000_000).max(1),
            offset_s: interface.ts_offset(),
        }),
        PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
            let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
            let bytes = frame.data.get(..frame.caplen as usize).unwrap_or(frame.data);
            return Some(Frame { interface: frame.if_id as usize, ticks: Some(ticks), bytes });
        }
        // It has no time, and is of the first interface.
        PcapBlockOwned::NG(Block::SimplePacket(frame)) => {
            return Some(Frame { interface: 0, ticks: None, bytes: frame.packet_data() });
        }
        PcapBlockOwned::NG(Block::Unknown(block))
            if [PACKET_BLOCK, PACKET_BLOCK.swap_bytes()].contains(&block.block_type) =>
        {
            return Some(Frame { interface: usize::MAX, ticks: None, bytes: &[] });
        }
        PcapBlockOwned::NG(_) => {}
    }
    None
}

impl Interface {
    fn time(&self, ticks: u64) -> Nanos {
        let nanos = i128::from(ticks) * 1_000_000_000 / i128::from(self.ticks_per_second);
        let nanos = nanos + i128::from(self.offset_s) * 1_000_000_000;
        Nanos::new(nanos.clamp(0, i128::from(u64::MAX)) as u64)
    }
}

/// Source, target and payload of a datagram.
type FramePayload = (SocketAddr, SocketAddr, Box<[u8]>);

/// The datagram of a `frame` of this type of link.
fn datagram(link: i32, frame: &[u8]) -> Result<FramePayload, Unusable> {
    // How long the header of the link is, and where in it the type of its payload is.
    let (length, typed_at) = match link {
        1 => (14, Some(12)),
        113 => (16, Some(14)),
        276 => (20, Some(0)),
        0 | 108 => (4, None),
        12 | 101 | 228 | 229 => (0, None),
        other => return Err(Unusable::Link(other)),
    };
    let (head, rest) = frame.split_at_checked(length).ok_or(Unusable::Other)?;
    let kind = typed_at.map(|at| EtherType(u16::from_be_bytes([head[at], head[at + 1]])));
    let packet = match kind {
        Some(kind) => SlicedPacket::from_ether_type(kind, rest).ok(),
        None => SlicedPacket::from_ip(rest).ok(),
    };
    if packet.as_ref().is_some_and(SlicedPacket::is_ip_payload_fragmented) {
        return Err(Unusable::Fragment);
    }
    packet.and_then(|packet| parts_of(&packet)).ok_or_else(|| why(kind, rest))
}

fn parts_of(packet: &SlicedPacket<'_>) -> Option<FramePayload> {
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return None };
    let [source, target]: [IpAddr; 2] = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => [ip.header().source_addr(), ip.header().destination_addr()].map(IpAddr::from),
        NetSlice::Ipv6(ip) => [ip.header().source_addr(), ip.header().destination_addr()].map(IpAddr::from),
        NetSlice::Arp(_) => return None,
    };
    let [source, target] =
        [(source, udp.source_port()), (target, udp.destination_port())].map(|(ip, port)| SocketAddr::new(ip, port));
    Some((source, target, udp.payload().into()))
}

/// Why a packet of this type gives no datagram.
fn why(kind: Option<EtherType>, packet: &[u8]) -> Unusable {
    let packet = match kind {
        Some(kind) => Some(LaxSlicedPacket::from_ether_type(kind, packet)),
        None => LaxSlicedPacket::from_ip(packet).ok(),
    };
    match packet.as_ref().and_then(|packet| packet.net.as_ref()).and_then(LaxNetSlice::ip_payload_ref) {
        Some(payload) if payload.fragmented => Unusable::Fragment,
        Some(payload) if payload.incomplete && payload.ip_number == IpNumber::UDP => Unusable::Cut,
        _ => Unusable::Other,
    }
}

#[cfg(test)]
mod tests;
