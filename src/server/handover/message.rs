//! The messages of a hand-over. Each is JSON in one packet of a Unix socket that keeps packet
//! boundaries, with file descriptors attached.

use crate::time::Nanos;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg, sockopt,
};
#[cfg(feature = "admin")]
use serde_json::{from_slice as decode, to_vec as encode};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

/// Version of these messages. Programs with different versions do not hand over to each other.
pub(super) const PROTOCOL: u32 = 1;

/// The most descriptors attached to one message; the kernel would take 253.
const DESCRIPTORS_MAX: usize = 64;

/// The longest message in bytes: `Begin` has at most 11 bytes for each of 4,096 sockets.
const MESSAGE_BYTES_MAX: usize = 65_536;

/// How long a message may wait for room in the socket. The other side reads messages at once.
const SEND_WITHIN: Nanos = Nanos::from_secs(1);

/// The messages between the two processes, in this order. README.md explains each step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "admin", derive(serde::Deserialize, serde::Serialize), serde(rename_all = "snake_case"))]
pub(super) enum Message {
    /// The successor asks. `version` is the program's, for the log.
    Hello { protocol: u32, version: String },
    /// The predecessor refuses and keeps serving.
    Refused { reason: String },
    /// The predecessor agrees. The descriptors follow: `sockets` UDP sockets, the admin listener,
    /// and the listener of this Unix socket. `kept` = another process keeps the sockets beyond both
    /// servers. `gro` = the predecessor receives GRO batches. `watchdog_us` = the interval of the
    /// supervisor's watchdog.
    Offer { sockets: usize, kept: bool, gro: bool, watchdog_us: Option<u64> },
    /// The message carries some of the descriptors.
    Descriptors,
    /// The successor has prepared everything, and waits for `Begin`.
    Ready,
    /// The predecessor has stopped receiving. `dropped` has its last readings of the kernel's drop
    /// counters, by socket.
    Begin { dropped: Vec<Option<u32>> },
    /// The successor has begun to serve.
    Serving,
    /// The predecessor finishes the requests that it has received, and ends.
    Leaving,
    /// The file beside it has what the predecessor's shards hand over.
    State,
    /// The predecessor keeps serving, and the successor must not serve.
    Staying { reason: String },
}

/// Without feature `admin`, `config` allows only `handover` = `off`.
#[cfg(not(feature = "admin"))]
fn encode(_: &Message) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(feature = "admin"))]
fn decode(_: &[u8]) -> io::Result<Message> {
    Err(io::ErrorKind::Unsupported.into())
}

/// One end of the connection between the servers of a hand-over.
#[derive(Debug)]
pub(super) struct Connection(Socket);

/// The result of waiting for a message.
#[derive(Debug)]
pub(super) enum Heard {
    Message(Message, Vec<OwnedFd>),
    /// The other end was closed without a message. A living process says why before it closes, so
    /// the other process has died.
    Gone,
    /// No message came in time.
    Late,
}

impl Connection {
    pub(super) fn new(socket: Socket) -> io::Result<Connection> {
        socket.set_write_timeout(Some(SEND_WITHIN.into()))?;
        Ok(Connection(socket))
    }

    /// Connects to the listener at `path`.
    pub(super) fn open(path: &Path) -> io::Result<Connection> {
        let socket = new_socket()?;
        socket.connect(&SockAddr::unix(path)?)?;
        Connection::new(socket)
    }

    /// Checks that the other process belongs to the same user. The kernel recorded the user when
    /// that process connected or listened.
    pub(super) fn check_peer(&self) -> io::Result<()> {
        let (peer, own) = (sockopt::socket_peercred(&self.0)?.uid, rustix::process::geteuid());
        if peer == own {
            return Ok(());
        }
        let reason = format!("the other process is user {}'s, this one {}'s", peer.as_raw(), own.as_raw());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
    }

    pub(super) fn send(&self, message: &Message) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends all of `descriptors`, in as many messages as needed.
    pub(super) fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        descriptors.chunks(DESCRIPTORS_MAX).try_for_each(|some| self.send_with(&Message::Descriptors, some))
    }

    pub(super) fn send_with(&self, message: &Message, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = encode(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !beside.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors beside one message"));
        }
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut beside, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for the next message, at most for `patience`.
    pub(super) fn hear(&self, patience: Nanos) -> io::Result<Heard> {
        // At least 1 ms, because the kernel takes zero as a wait without limit.
        self.0.set_read_timeout(Some(patience.max(Nanos::from_millis(1)).into()))?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut text = vec![0; MESSAGE_BYTES_MAX];
        let received =
            retry_on_intr(|| recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut beside, RecvFlags::CMSG_CLOEXEC));
        let received = match received {
            Ok(received) => received,
            Err(Errno::AGAIN) => return Ok(Heard::Late),
            Err(Errno::CONNRESET) => return Ok(Heard::Gone),
            Err(errno) => return Err(errno.into()),
        };
        let descriptors: Vec<OwnedFd> = beside
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        if received.bytes == 0 {
            return Ok(Heard::Gone);
        }
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other(
                "a message was cut off: too few file descriptors are allowed, or it is none of ours",
            ));
        }
        let message = decode(&text[..received.bytes])?;
        Ok(Heard::Message(message, descriptors))
    }
}

/// A socket for either end of a hand-over.
pub(super) fn new_socket() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::SEQPACKET, None)
}

#[cfg(all(test, feature = "admin"))]
mod tests {
    use super::*;
    use crate::config::SOCKETS_MAX;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    fn pair() -> [Connection; 2] {
        let (one, other) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair of sockets");
        [one, other].map(|socket| Connection::new(socket).expect("a timeout"))
    }

    // Do messages stay apart, with as many descriptors as the largest server has?
    #[test]
    fn messages_and_descriptors_arrive_as_they_were_sent() {
        let [one, other] = pair();
        let pipes: Vec<_> = (0..150).map(|_| std::io::pipe().expect("a pipe")).collect();
        let writers: Vec<_> = pipes.iter().map(|(_, writer)| writer.as_fd()).collect();
        let begin = Message::Begin { dropped: vec![Some(u32::MAX); SOCKETS_MAX] };
        one.send(&begin).expect("room");
        one.send_descriptors(&writers).expect("room");
        let Heard::Message(first, none) = other.hear(Nanos::ZERO).expect("a message") else { panic!("nothing") };
        assert_eq!((first, none.len()), (begin, 0));
        let mut received = Vec::new();
        while received.len() < pipes.len() {
            match other.hear(Nanos::from_secs(5)).expect("a message") {
                Heard::Message(Message::Descriptors, some) => received.extend(some),
                heard => panic!("{heard:?}"),
            }
        }
        for (number, (descriptor, (mut reader, _))) in received.into_iter().zip(pipes).enumerate() {
            File::from(descriptor).write_all(&[number as u8]).expect("room in the pipe");
            let mut byte = [0];
            reader.read_exact(&mut byte).expect("a byte");
            assert_eq!(byte, [number as u8], "in the order in which they were sent");
        }
    }

    // Are a silent peer and a closed connection told apart? Is a packet that is no message an
    // error?
    #[test]
    fn silence_is_not_death() {
        let [one, other] = pair();
        assert!(matches!(one.hear(Nanos::from_millis(5)), Ok(Heard::Late)));
        other.0.send(b"{}").expect("room");
        assert!(one.hear(Nanos::ZERO).is_err());
        other.send(&Message::Serving).expect("room");
        drop(other);
        assert!(
            matches!(one.hear(Nanos::ZERO), Ok(Heard::Message(Message::Serving, _))),
            "what was said before counts"
        );
        assert!(matches!(one.hear(Nanos::ZERO), Ok(Heard::Gone)));
        assert!(one.send(&Message::Ready).is_err());
    }

    #[test]
    fn both_ends_are_this_user() {
        let [one, other] = pair();
        one.check_peer().and_then(|()| other.check_peer()).expect("this process");
    }
}
