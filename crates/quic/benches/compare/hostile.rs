//! Hostile datagrams beside established connections.

use super::support::{ONE_DATAGRAM, Server, ask, patient, request};
use forebay::time::{Nanos, clock};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Packets of many unknown connections; packets of one, which reach one shard; first packets of
/// handshakes that are never finished. The last kind repeats the packets of an established
/// connection, the last one first.
pub(crate) const KINDS: [&str; 4] = ["forged", "one-shard", "half-open", "replayed"];

/// Hostile datagrams per second.
const RATE: u64 = 20_000;

/// How many are sent after one sleep.
const BURST: u64 = 10;

/// Addresses from which they come.
const SOURCES: u8 = 250;

/// Handshakes that are recorded, to be begun from each address.
const RECORDED: usize = 1_000;

/// Requests of the connection that is replayed.
const REQUESTS: u32 = 200;

/// How often the relay looks for datagrams.
const LOOK: Duration = Duration::from_micros(50);

/// A thread that sends hostile datagrams until this is dropped.
pub(crate) struct Hostile {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hostile {
    /// Begins to send datagrams of this kind to `server`.
    pub(crate) async fn begin(kind: &str, server: &Server) -> Hostile {
        let open = |number| UdpSocket::bind((Ipv4Addr::new(127, 1, 0, number), 0)).expect("an address of loopback");
        let (sockets, recorded) = match kind {
            "replayed" => relayed(server).await,
            "half-open" => ((1..=SOURCES).map(open).collect(), record(server).await),
            _ => ((1..=SOURCES).map(open).collect(), Vec::new()),
        };
        let (address, is_over) = (server.address, Arc::new(AtomicBool::new(false)));
        let (until, one_shard) = (Arc::clone(&is_over), kind == "one-shard");
        let thread = thread::spawn(move || {
            let began = clock::now();
            // Ordering: no data comes with the flag.
            for sent in (0..).take_while(|_| !until.load(Ordering::Relaxed)) {
                if sent % BURST == 0 {
                    let due = began.plus(Nanos::new(sent * (1_000_000_000 / RATE)));
                    thread::sleep(due.minus(clock::now()).into());
                }
                let name = if one_shard { 0 } else { sent };
                let forged = [&[0x40][..], &name.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(), &[7; 40]].concat();
                let datagram = recorded.get(sent as usize % recorded.len().max(1)).unwrap_or(&forged);
                // A full buffer loses it, as a network would.
                let _ = sockets[sent as usize % sockets.len()].send_to(datagram, address);
            }
        });
        Hostile { is_over, thread: Some(thread) }
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        // Ordering: as above.
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// First packets of clients, each with its own connection ID. A server that does not answer
/// receives them.
async fn record(server: &Server) -> Vec<Vec<u8>> {
    let deaf = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    deaf.set_read_timeout(Some(Duration::from_millis(1))).expect("a time above zero");
    let address = deaf.local_addr().expect("an address");
    let (client, mut buffer, mut recorded) = (server.client_of(ONE_DATAGRAM), [0; 2_048], Vec::new());
    while recorded.len() < RECORDED {
        let connecting = client.connect(address, "localhost").expect("a local address");
        // The endpoint's task sends the packet.
        tokio::time::sleep(Duration::from_micros(100)).await;
        drop(connecting);
        while let Ok((bytes, _)) = deaf.recv_from(&mut buffer) {
            // An Initial packet has these bits; others tell of the client's end.
            if buffer[0] & 0xF0 == 0xC0 && bytes >= 1_200 {
                recorded.push(buffer[..bytes].to_vec());
            }
        }
    }
    recorded
}

/// The packets that a client has sent on a connection through a relay, the last one first. Before
/// them the relay's socket: the server knows the connection by its address.
async fn relayed(server: &Server) -> (Vec<UdpSocket>, Vec<Vec<u8>>) {
    let [front, back] = [(); 2].map(|()| {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        socket.set_nonblocking(true).expect("a socket can");
        socket
    });
    let (near, address) = (front.local_addr().expect("an address"), server.address);
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let relay = thread::spawn(move || {
        let (mut client, mut buffer, mut recorded) = (SocketAddr::from(([127, 0, 0, 1], 9)), [0; 2_048], Vec::new());
        // Ordering: no data comes with the flag.
        while !until.load(Ordering::Relaxed) {
            while let Ok((bytes, from)) = front.recv_from(&mut buffer) {
                client = from;
                recorded.insert(0, buffer[..bytes].to_vec());
                let _ = back.send_to(&buffer[..bytes], address);
            }
            while let Ok(bytes) = back.recv(&mut buffer) {
                let _ = front.send_to(&buffer[..bytes], client);
            }
            thread::sleep(LOOK);
        }
        (back, recorded)
    });
    let client = server.client();
    let connection = patient(client.connect(near, "localhost").expect("a local address")).await.expect("a handshake");
    for _ in 0..REQUESTS {
        patient(ask(&connection, &request(100, 0))).await.expect("an answer");
    }
    is_over.store(true, Ordering::Relaxed);
    let (back, recorded) = relay.join().expect("the relay ends");
    (vec![back], recorded)
}
