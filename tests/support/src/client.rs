//! Clients of the bench protocol, and of handlers with text messages. Each client has its own
//! source port.

use super::{GIVE_UP_AFTER, Running};
use forebay::inside::wire::{DATAGRAM_MAX_BYTES, Header, Kind, Status};
use forebay::time::Nanos;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};
use std::io::{self, ErrorKind, IoSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;

/// A client with a source port of its own, connected to one server.
pub struct Client {
    pub socket: UdpSocket,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub header: Header,
    pub payload: Vec<u8>,
}

impl Client {
    pub fn new(server: SocketAddr) -> Client {
        match server {
            SocketAddr::V4(_) => Client::at(Ipv4Addr::LOCALHOST.into(), server),
            SocketAddr::V6(_) => Client::at(Ipv6Addr::LOCALHOST.into(), server),
        }
    }

    /// A client that sends from `address`.
    pub fn at(address: IpAddr, server: SocketAddr) -> Client {
        let socket = UdpSocket::bind((address, 0)).expect("a free port");
        socket.connect(server).expect("a local address");
        Client { socket }
    }

    /// Sends `bytes` as they are.
    pub fn send(&self, bytes: &[u8]) {
        let sent = self.socket.send(bytes).expect("the server's port is open");
        assert_eq!(sent, bytes.len());
    }

    /// Sends `bytes` as datagrams of `length` bytes, and one with the remaining bytes.
    pub fn send_train(&self, bytes: &[u8], length: u16) {
        let (slices, cut) = ([IoSlice::new(bytes)], [ControlMessage::UdpGsoSegments(&length)]);
        let sent = sendmsg::<SockaddrStorage>(self.socket.as_raw_fd(), &slices, &cut, MsgFlags::empty(), None);
        assert_eq!(sent, Ok(bytes.len()));
    }

    /// Sends a request of class `short`.
    pub fn request(&self, id: u64, cost: Nanos, payload: &[u8]) {
        self.send(&message(&Header::request(id, 0, cost), payload));
    }

    /// Sends a request and waits for its reply.
    pub fn ask(&self, header: &Header, payload: &[u8]) -> Answer {
        self.send(&message(header, payload));
        let answer = self.receive();
        assert_eq!(answer.header.id, header.id, "an answer to another request");
        answer
    }

    /// The worker that owns the socket which this client reaches. It serves this client several
    /// times in a row.
    pub fn owner(&self) -> usize {
        let ask = || usize::from(self.ask(&Header::request(9, 0, Nanos::ZERO), b"").header.served.worker);
        let (mut worker, mut times) = (ask(), 1);
        while times < 5 {
            let next = ask();
            times = if next == worker { times + 1 } else { 1 };
            worker = next;
        }
        worker
    }

    pub fn receive(&self) -> Answer {
        self.receive_within(GIVE_UP_AFTER).expect("an answer")
    }

    /// The next reply, if one comes within `patience`. Zero takes only a reply that has come
    /// already.
    pub fn receive_within(&self, patience: Nanos) -> Option<Answer> {
        self.socket.set_nonblocking(patience == Nanos::ZERO).expect("a socket");
        if patience > Nanos::ZERO {
            self.socket.set_read_timeout(Some(patience.into())).expect("a timeout above zero");
        }
        let mut buffer = [0; DATAGRAM_MAX_BYTES];
        // If another test stops and continues the process, this call is interrupted.
        let is_answer = |received: &io::Result<usize>| {
            !received.as_ref().is_err_and(|error| error.kind() == ErrorKind::Interrupted)
        };
        let length = match std::iter::repeat_with(|| self.socket.recv(&mut buffer)).find(is_answer).expect("endless") {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return None,
            Err(error) => panic!("{error}"),
        };
        self.socket.set_nonblocking(false).expect("a socket");
        let header = Header::parse(&buffer[..length]).expect("the bench protocol");
        assert_eq!(header.kind, Kind::Reply);
        Some(Answer { header, payload: buffer[forebay::inside::wire::HEADER_BYTES..length].to_vec() })
    }
}

/// The status of a request without cost.
pub fn status_at(server: SocketAddr) -> Status {
    Client::new(server).ask(&Header::request(1, 0, Nanos::ZERO), b"").header.status
}

pub fn message(header: &Header, payload: &[u8]) -> Vec<u8> {
    [&header.emit()[..], payload].concat()
}

/// A socket with its own port, connected to `server`. A receive fails after [`GIVE_UP_AFTER`].
pub fn client_of(server: SocketAddr) -> UdpSocket {
    let Client { socket } = Client::new(server);
    socket.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a timeout above zero");
    socket
}

pub fn client(server: &Running) -> UdpSocket {
    client_of(server.udp)
}

pub fn receive_bytes(socket: &UdpSocket) -> Vec<u8> {
    let mut answer = [0; 1_500];
    let length = socket.recv(&mut answer).expect("an answer");
    answer[..length].to_vec()
}

pub fn receive(socket: &UdpSocket) -> String {
    String::from_utf8_lossy(&receive_bytes(socket)).into_owned()
}

/// The answer to a question from `socket`.
pub fn ask_from(socket: &UdpSocket, question: impl AsRef<[u8]>) -> String {
    socket.send(question.as_ref()).expect("the server's port is open");
    receive(socket)
}

/// The answer to a question from a new port.
pub fn ask(server: &Running, question: &str) -> String {
    ask_from(&client(server), question)
}
