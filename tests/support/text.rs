//! Clients of handlers that speak text, one source port each.

use super::{GIVE_UP_AFTER, Running};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A socket with a port of its own, connected to `server`. A receive fails after [`GIVE_UP_AFTER`].
pub(crate) fn client_of(server: SocketAddr) -> UdpSocket {
    let socket = match server {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)),
    };
    let socket = socket.expect("a free port");
    socket.connect(server).expect("a local address");
    socket.set_read_timeout(Some(GIVE_UP_AFTER.into())).expect("a timeout above zero");
    socket
}

pub(crate) fn client(server: &Running) -> UdpSocket {
    client_of(server.udp)
}

pub(crate) fn receive_bytes(socket: &UdpSocket) -> Vec<u8> {
    let mut answer = [0; 1_500];
    let length = socket.recv(&mut answer).expect("an answer");
    answer[..length].to_vec()
}

pub(crate) fn receive(socket: &UdpSocket) -> String {
    String::from_utf8_lossy(&receive_bytes(socket)).into_owned()
}

/// The answer to a question from `socket`.
pub(crate) fn ask_from(socket: &UdpSocket, question: impl AsRef<[u8]>) -> String {
    socket.send(question.as_ref()).expect("the server's port is open");
    receive(socket)
}

/// The answer to a question from a port of its own.
pub(crate) fn ask(server: &Running, question: &str) -> String {
    ask_from(&client(server), question)
}
