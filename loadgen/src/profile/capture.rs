//! Reads captures of packets (pcap and pcapng): the UDP datagrams that go to one port.

use crate::lab::workload::lines;
use etherparse::{EtherType, NetSlice, SlicedPacket, TransportSlice};
use forebay::time::Nanos;
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, create_reader};
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

/// The largest block to read. A frame of Linux has at most 256 KiB.
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// The most payload that is held.
const BYTES_MAX: usize = 1 << 30;
/// As many as a schedule may hold.
const DATAGRAMS_MAX: usize = 50_000_000;
/// The first bytes of a file: pcapng, then pcap with microseconds and with nanoseconds.
const MAGIC: [u32; 3] = [0x0a0d_0d0a, 0xa1b2_c3d4, 0xa1b2_3c4d];

/// The datagrams of a capture that go to one port.
#[derive(Debug)]
pub(crate) struct Capture {
    /// In the order of their times, the first at 0.
    pub(crate) datagrams: Vec<Datagram>,
    /// What was read and left out, for people.
    pub(crate) told: String,
}

#[derive(Debug)]
pub(crate) struct Datagram {
    pub(crate) at: Nanos,
    pub(crate) source: SocketAddr,
    port: u16,
    pub(crate) payload: Box<[u8]>,
}

/// How the frames of an interface are read: their link, and ticks and seconds of their times.
struct Interface {
    link: Linktype,
    ticks_per_second: u64,
    offset_s: i64,
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
    /// datagrams go to. Of several it is the first, for replies come after requests.
    ///
    /// # Errors
    /// If it is no capture, too large, or has no datagram to the port.
    pub(crate) fn read(text: &str) -> Result<Capture, String> {
        let (path, port) = parts(text)?;
        let (mut datagrams, fragments, others) = all(lines::open(path)?)?;
        let mut ports = Vec::<(u16, usize)>::new();
        for datagram in &datagrams {
            match ports.iter_mut().find(|(port, _)| *port == datagram.port) {
                Some((_, count)) => *count += 1,
                None => ports.push((datagram.port, 1)),
            }
        }
        let most = ports.iter().rev().max_by_key(|(_, count)| *count).map(|(port, _)| *port);
        let port = port.or(most).ok_or("it has no whole UDP datagram")?;
        let read = datagrams.len();
        datagrams.retain(|datagram| datagram.port == port);
        datagrams.sort_by_key(|datagram| datagram.at);
        let first = datagrams.first().ok_or_else(|| format!("it has no UDP datagram to port {port}"))?.at;
        datagrams.iter_mut().for_each(|datagram| datagram.at = datagram.at.minus(first));
        let (count, other_ports) = (datagrams.len(), read - datagrams.len());
        let told = format!(
            ": {count} datagrams to port {port}; left out: {other_ports} to other ports, {fragments} fragments, {others} \
             other frames"
        );
        Ok(Capture { datagrams, told })
    }
}

/// All UDP datagrams of `file`, and how many fragments and other frames it has.
fn all(file: impl Read + Send) -> Result<(Vec<Datagram>, u64, u64), String> {
    let allowed = "write a pcap or pcapng file";
    let unread = |error: PcapError<&[u8]>| format!("it cannot be read: {error}; {allowed}");
    let mut reader = create_reader(BLOCK_BYTES_MAX, file).map_err(unread)?;
    let (mut interfaces, mut datagrams, mut bytes) = (Vec::<Interface>::new(), Vec::new(), 0);
    let [mut fragments, mut others] = [0; 2];
    loop {
        let (length, block) = match reader.next() {
            Ok(read) => read,
            Err(PcapError::Eof) => return Ok((datagrams, fragments, others)),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(unread)?;
                continue;
            }
            Err(error) => return Err(unread(error)),
        };
        if let Some((interface, ticks, frame)) = frame(&block, &mut interfaces) {
            let interface = interfaces.get(interface).ok_or_else(|| format!("a frame has no interface; {allowed}"))?;
            let packet = packet(interface.link, frame)?;
            let is_fragment = packet.as_ref().is_some_and(SlicedPacket::is_ip_payload_fragmented);
            match packet.and_then(|packet| datagram(&packet, interface.time(ticks))) {
                Some(datagram) => {
                    bytes += datagram.payload.len();
                    datagrams.push(datagram);
                }
                None => *(if is_fragment { &mut fragments } else { &mut others }) += 1,
            }
            if bytes > BYTES_MAX || datagrams.len() > DATAGRAMS_MAX {
                return Err(format!("it has more than {DATAGRAMS_MAX} datagrams or 1 GiB of payload"));
            }
        }
        reader.consume(length);
    }
}

/// The interface, the time in its ticks and the bytes of the frame that `block` holds, if it is
/// one. Otherwise notes what it says of interfaces.
fn frame<'a>(block: &'a PcapBlockOwned<'_>, interfaces: &mut Vec<Interface>) -> Option<(usize, u64, &'a [u8])> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let ticks_per_second = if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            interfaces.push(Interface { link: header.network, ticks_per_second, offset_s: 0 });
        }
        PcapBlockOwned::Legacy(frame) => {
            let ticks = u64::from(frame.ts_sec) * interfaces.first()?.ticks_per_second + u64::from(frame.ts_usec);
            return Some((0, ticks, frame.data));
        }
        PcapBlockOwned::NG(Block::SectionHeader(_)) => interfaces.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => interfaces.push(Interface {
            link: interface.linktype,
            ticks_per_second: interface.ts_resolution().unwrap_or(1_000_000).max(1),
            offset_s: interface.ts_offset(),
        }),
        PcapBlockOwned::NG(Block::EnhancedPacket(frame)) => {
            let ticks = u64::from(frame.ts_high) << 32 | u64::from(frame.ts_low);
            let bytes = frame.data.get(..frame.caplen as usize).unwrap_or(frame.data);
            return Some((frame.if_id as usize, ticks, bytes));
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

/// The headers of `frame`; `None` if it is cut off or not of IP.
fn packet(link: Linktype, frame: &[u8]) -> Result<Option<SlicedPacket<'_>>, String> {
    // Where the type of the payload is in the header of the link, and how long the header is.
    let typed = |at: usize, length: usize| {
        let (head, rest) = frame.split_at_checked(length)?;
        let kind = u16::from_be_bytes([head[at], head[at + 1]]);
        SlicedPacket::from_ether_type(EtherType(kind), rest).ok()
    };
    match link.0 {
        1 => Ok(typed(12, 14)),
        113 => Ok(typed(14, 16)),
        276 => Ok(typed(0, 20)),
        0 | 108 => Ok(frame.get(4..).and_then(|rest| SlicedPacket::from_ip(rest).ok())),
        12 | 101 | 228 | 229 => Ok(SlicedPacket::from_ip(frame).ok()),
        other => Err(format!(
            "its frames are of link type {other}: allowed are Ethernet, raw IP, Linux cooked (SLL, SLL2) and loopback"
        )),
    }
}

fn datagram(packet: &SlicedPacket<'_>, at: Nanos) -> Option<Datagram> {
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return None };
    let source = match packet.net.as_ref()? {
        NetSlice::Ipv4(ip) => ip.header().source_addr().into(),
        NetSlice::Ipv6(ip) => ip.header().source_addr().into(),
        NetSlice::Arp(_) => return None,
    };
    let source = SocketAddr::new(source, udp.source_port());
    Some(Datagram { at, source, port: udp.destination_port(), payload: udp.payload().into() })
}

#[cfg(test)]
mod tests;
