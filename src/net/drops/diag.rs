//! Drops from the kernel's socket diagnosis, over netlink (sock_diag(7)): the same counters as in the table, for a
//! process that has no `/proc`. Needs `AF_NETLINK`, and a kernel with `udp_diag`.

use super::ByInode;
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};
use std::io;
use std::os::fd::AsRawFd;

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP` of linux/netlink.h: all sockets.
const REQUEST_ALL: u16 = 0x301;
/// `NLMSG_ERROR` and `NLMSG_DONE` of linux/netlink.h.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// `INET_DIAG_SKMEMINFO` of linux/inet_diag.h, an attribute: the memory of the socket, in words.
const MEMORY: u16 = 7;
/// Which of those words is the number of drops: `SK_MEMINFO_DROPS` of linux/sock_diag.h.
const DROPS_WORD: usize = 8;

/// Bytes of `nlmsghdr`.
const HEADER: usize = 16;
/// Bytes of `inet_diag_msg`, and where its inode stands.
const SOCKET: usize = 72;
const INODE: usize = 68;
/// Where its bytes that wait stand.
const WAITING: usize = 56;
/// Bytes of an attribute's length and type.
const ATTRIBUTE: usize = 4;
/// The kernel sends at most 32 KiB at once, or the length of the caller's buffer if that is less.
const BUFFER: usize = 1 << 15;

/// Drops of all UDP sockets, by inode.
pub(super) fn read() -> io::Result<ByInode> {
    let mut drops = ByInode::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let netlink = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkSockDiag)?;
        send(netlink.as_raw_fd(), &request(family), MsgFlags::empty())?;
        let mut buffer = vec![0; BUFFER];
        // The kernel answers every request, and marks its last message.
        loop {
            let length = recv(netlink.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            if add(&mut drops, &buffer[..length])? {
                break;
            }
        }
    }
    Ok(drops)
}

/// Asks for every UDP socket of `family`, in whatever state, and for its memory.
fn request(family: AddressFamily) -> Vec<u8> {
    // `inet_diag_req_v2`: family, protocol, attributes (a bit each, from 1), padding, states; then an address, of any
    // socket.
    let udp = nix::libc::IPPROTO_UDP as u8;
    let mut body = vec![family as u8, udp, 1 << (MEMORY - 1), 0, 0xff, 0xff, 0xff, 0xff];
    body.resize(body.len() + 48, 0);
    let mut message = Vec::with_capacity(HEADER + body.len());
    message.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_ALL.to_ne_bytes());
    // Sequence and sender: one request on a socket of its own needs neither.
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Adds the drops in the messages of `answer`; true after the last message.
fn add(drops: &mut ByInode, mut answer: &[u8]) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (word(answer, 0), half_word(answer, 4)) {
        let message = answer.get(HEADER..length as usize).ok_or(io::ErrorKind::InvalidData)?;
        match kind {
            DONE | ERROR => {
                // Both carry an error number, negative; 0 is none.
                let error = word(message, 0).unwrap_or(0) as i32;
                return if error < 0 { Err(Errno::from_raw(-error).into()) } else { Ok(true) };
            }
            BY_FAMILY => {
                let (inode, waiting) = (word(message, INODE), word(message, WAITING));
                if let (Some(inode), Some(waiting), Some(dropped)) = (inode, waiting, dropped(message)) {
                    drops.insert(u64::from(inode), (dropped, waiting));
                }
            }
            _ => {}
        }
        answer = answer.get(aligned(length as usize)..).unwrap_or_default();
    }
    Ok(false)
}

/// The drops in the attributes of a socket.
fn dropped(message: &[u8]) -> Option<u32> {
    let mut attributes = message.get(SOCKET..)?;
    loop {
        let (length, kind) = (usize::from(half_word(attributes, 0)?), half_word(attributes, 2)?);
        let value = attributes.get(ATTRIBUTE..length)?;
        if kind == MEMORY {
            return word(value, 4 * DROPS_WORD);
        }
        attributes = attributes.get(aligned(length)..)?;
    }
}

/// Messages and attributes begin at multiples of 4 bytes.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half_word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}
