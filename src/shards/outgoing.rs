//! Datagrams that a service sends beside its replies. The worker's thread keeps them, and sends
//! them with its replies.

use crate::fate::ShardSend;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Bytes that a worker keeps until it sends: four times the longest GSO batch.
const BYTES_MAX: usize = 1 << 18;

/// Calls of [`Out::send`](crate::Out::send) that a worker keeps until it sends.
const CALLS_MAX: usize = 1_024;

/// Bytes for [`Out::send`](crate::Out::send), as one datagram or as several of equal length.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    bytes: &'a [u8],
    segment: usize,
    from: Option<SocketAddr>,
    validated: bool,
    ecn: u8,
}

impl<'a> Transmit<'a> {
    /// One datagram of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Transmit<'a> {
        Transmit { bytes, segment: usize::MAX, from: None, validated: false, ecn: 0 }
    }

    /// Cuts the bytes into datagrams of `segment` bytes each, at least one; the last one may be
    /// shorter. They leave as one GSO batch if the network device can cut it.
    #[must_use]
    pub const fn segments(self, segment: usize) -> Transmit<'a> {
        Transmit { segment: if segment == 0 { 1 } else { segment }, ..self }
    }

    /// Sends from this address of the server, which [`Arrival::local`](crate::Arrival::local)
    /// returns. By default the source is the server's first address of the receiver's family.
    #[must_use]
    pub const fn from(self, local: SocketAddr) -> Transmit<'a> {
        Transmit { from: Some(local), ..self }
    }

    /// States that the receiver's address is not forged, because a datagram from there contained
    /// something that only its owner can have received. Any other address gets at most
    /// `--amplification` bytes for each byte from there in the same second, replies included.
    #[must_use]
    pub const fn validated(self) -> Transmit<'a> {
        Transmit { validated: true, ..self }
    }

    /// Sets the ECN bits of the IP header, as [`Request::ecn`](crate::Request::ecn) tells them.
    /// Without [`Service::TRANSPORT`](crate::Service::TRANSPORT) they stay 0.
    #[must_use]
    pub const fn ecn(self, bits: u8) -> Transmit<'a> {
        Transmit { ecn: bits & 3, ..self }
    }
}

/// Why nothing was sent.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The worker already keeps 1,024 calls or 256 KiB to send. It sends them at the next
    /// checkpoint at which the policy takes the worker back, or when the event ends.
    #[error("the worker has as much to send as it keeps")]
    Full,
    /// The address is not [validated](Transmit::validated), and got as many bytes as are allowed.
    #[error("the address may be forged, and got what it may")]
    Unproven,
    /// The server has no such address, or none of this family.
    #[error("the server does not listen on this address, or not in this family")]
    NoAddress,
}

crate::time::show_as_text!(SendError);

/// Keeps a call of [`Out::send`](crate::Out::send) until this worker sends.
///
/// # Errors
/// [`SendError`]; nothing is sent then.
pub(crate) fn put(way: &dyn Way, to: SocketAddr, transmit: Transmit<'_>) -> Result<(), SendError> {
    let (address, local) = way.source(&to, transmit.from).ok_or(SendError::NoAddress)?;
    BAG.with_borrow_mut(|bag| {
        ANY.set(true);
        let error = if !bag.has_room(transmit.bytes.len()) {
            SendError::Full
        } else if !transmit.validated && !way.allows(to.ip(), transmit.bytes.len()) {
            SendError::Unproven
        } else {
            let bytes = bag.put(transmit.bytes);
            bag.calls.push(Call { to, address, local, segment: transmit.segment, ecn: transmit.ecn, bytes });
            return Ok(());
        };
        bag.refused[usize::from(error == SendError::Unproven)] += 1;
        Err(error)
    })
}

/// Chooses source addresses for the datagrams of a service, and limits their bytes.
pub(crate) trait Way: Sync {
    /// The number of the server's address that sends to `to`: that of `from`, if it is given. If
    /// that socket is bound to a wildcard address, also the source address to set.
    fn source(&self, to: &SocketAddr, from: Option<SocketAddr>) -> Option<(u8, Option<IpAddr>)>;

    /// Whether `bytes` bytes may go to `to`, an address that may be forged.
    fn allows(&self, to: IpAddr, bytes: usize) -> bool;
}

impl std::fmt::Debug for dyn Way + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

/// The calls that one worker keeps until it sends them.
#[derive(Default)]
pub(crate) struct Bag {
    bytes: Vec<u8>,
    calls: Vec<Call>,
    /// Refused calls: for lack of room, and because the address may be forged.
    refused: [u64; 2],
}

/// One call of [`Out::send`](crate::Out::send).
struct Call {
    to: SocketAddr,
    address: u8,
    local: Option<IpAddr>,
    segment: usize,
    ecn: u8,
    bytes: Range<usize>,
}

thread_local! {
    static BAG: RefCell<Bag> = const { RefCell::new(Bag { bytes: Vec::new(), calls: Vec::new(), refused: [0; 2] }) };
    static ANY: Cell<bool> = const { Cell::new(false) };
}

/// Allocates the memory of the calling thread, so that no event has to allocate.
pub(crate) fn open() {
    BAG.with_borrow_mut(|bag| {
        bag.bytes.reserve_exact(BYTES_MAX);
        bag.calls.reserve_exact(CALLS_MAX);
    });
}

/// Whether this thread has something to send or to count.
#[inline]
pub(crate) fn any() -> bool {
    ANY.get()
}

/// Calls `send` with all calls that this thread keeps, then removes them.
pub(crate) fn drain(send: impl FnOnce(&Bag)) {
    ANY.set(false);
    let mut bag = BAG.take();
    send(&bag);
    bag.bytes.clear();
    bag.calls.clear();
    bag.refused = [0; 2];
    BAG.set(bag);
}

impl Bag {
    fn has_room(&self, bytes: usize) -> bool {
        self.calls.len() < CALLS_MAX && self.bytes.len() + bytes <= BYTES_MAX
    }

    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        begin..self.bytes.len()
    }

    /// The datagrams from the server's `address`: bytes, receiver, the source to name, and ECN.
    pub(crate) fn datagrams(&self, address: usize) -> impl Iterator<Item = (&[u8], SocketAddr, Option<IpAddr>, u8)> {
        let from_here = self.calls.iter().filter(move |call| usize::from(call.address) == address);
        from_here.flat_map(|call| {
            let pieces = self.bytes[call.bytes.clone()].chunks(call.segment);
            pieces.map(|piece| (piece, call.to, call.local, call.ecn))
        })
    }

    /// The number of refused calls by reason.
    pub(crate) fn refused(&self) -> [(ShardSend, u64); 2] {
        [(ShardSend::Full, self.refused[0]), (ShardSend::Unproven, self.refused[1])]
    }
}
