//! Do datagrams beside replies arrive, from any event, and only at permitted addresses? Is each
//! counted? Are ECN bits read and set?

use forebay::handler::{Once, SendError, Transmit};
use forebay::{Event, Out, Service};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use std::io::IoSliceMut;
use std::os::fd::AsRawFd;
use support::prelude::*;

/// The first byte of a request says which datagrams to send to its sender.
struct Sends;

/// The longest payload here. A flood of it exceeds any credit.
const LONG: [u8; 1_000] = [b'x'; 1_000];

impl Service for Sends {
    type Ticket = ();
    type Shard = Option<SocketAddr>;
    type Message = std::convert::Infallible;

    const SHARDS: usize = 4;
    const TRANSPORT: bool = true;

    fn shard(&self, _: usize) -> Option<SocketAddr> {
        None
    }

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).reply_limit(0))
    }

    async fn handle(&self, last: &mut Option<SocketAddr>, event: Event<'_>, out: &mut Out<'_>) {
        let request = match event {
            Event::Datagram(request) => request,
            Event::Timer { .. } => {
                let to = last.expect("a request has armed it");
                return out.send(to, Transmit::new(b"later").validated()).expect("there is room");
            }
            _ => return,
        };
        let peer = request.peer();
        let proven = |bytes| Transmit::new(bytes).from(request.local()).validated();
        match request.bytes()[0] {
            b'a' => {
                *last = Some(peer);
                out.at(0, clock::instant(clock::now().plus(Nanos::from_millis(5)))).expect("there is room");
            }
            b'e' => out.send(peer, proven(&LONG).segments(500).ecn(request.ecn())).expect("there is room"),
            b's' => out.send(peer, proven(&LONG).segments(300)).expect("there is room"),
            b'u' => {
                assert_eq!(out.send(peer, Transmit::new(&LONG)), Err(SendError::Unproven));
                let as_long = Transmit::new(request.bytes());
                assert_eq!(out.send(peer, as_long), Ok(()), "as much as came");
                assert_eq!(out.send(peer, Transmit::new(b"?")), Err(SendError::Unproven));
                checkpoint().await;
                assert_eq!(out.send(SocketAddr::from((HERE_V6, 9)), proven(b"?")), Err(SendError::NoAddress));
                assert_eq!(out.send(peer, proven(b"?").from(peer)), Err(SendError::NoAddress));
            }
            _ => {
                let fit = (0..2_000).take_while(|_| out.send(peer, proven(b"!")).is_ok()).count();
                assert_eq!((fit, out.send(peer, proven(b"!"))), (1_024, Err(SendError::Full)));
            }
        }
    }
}

#[test]
fn datagrams_beside_replies_arrive_and_are_counted() {
    for (listen, policy) in [("127.0.0.1:0", "levels"), ("0.0.0.0:0", "isolated")] {
        let settings = [("listen", listen), ("policy", policy), ("workers", "2")];
        let server = Running::on(bound(&settings), Sends);
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.udp.port()));
        let client = client_of(to);
        let sends = |kind: &[u8]| client.send(kind).expect("the server's port is open");
        // The first datagram, before any other request has added credit.
        sends(b"u...");
        assert_eq!(receive_bytes(&client), b"u...", "{policy}");
        sends(b"a...");
        assert_eq!(receive_bytes(&client), b"later", "{policy}");
        sends(b"s...");
        let lengths = [(); 4].map(|()| receive_bytes(&client).len());
        assert_eq!(lengths, [300, 300, 300, 100], "{policy}");
        sends(b"f...");
        await_until(|| sent(&server, "full") > 0.0, policy);
        let report = server.stop();
        let sends = report.totals.counts.counted.shard_datagrams;
        // One later, four segments, one of the same length, and as many as there is room for.
        assert_eq!(sends[0] + sends[1], 1 + 4 + 1 + 1_024, "{policy}: {sends:?}");
        assert_eq!(sends[2..], [2, 2], "{policy}");
        assert_eq!(report.totals.fates.failed, 0, "{policy}");
    }
}

fn sent(server: &Running, result: &str) -> f64 {
    metric(&server.metrics(), &format!("forebay_shard_datagrams_total{{result=\"{result}\"}}"))
}

// Are the ECN bits of a request read, and set on what is sent, in both families and through a
// socket for both? Is a wrapped transport protocol one, too?
#[test]
fn ecn_bits_are_read_and_set() {
    const { assert!(<Once<Sends> as Service>::TRANSPORT) }
    for (listen, to) in [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "127.0.0.1"), ("[::]:0", "::1")] {
        let server = Running::on(bound(&[("listen", listen), ("workers", "1")]), Sends);
        let to: IpAddr = to.parse().expect("an address");
        let client = client_of(SocketAddr::from((to, server.udp.port())));
        let marks = |bits: u8| match to {
            IpAddr::V4(_) => setsockopt(&client, sockopt::Ipv4Tos, &bits.into()),
            IpAddr::V6(_) => setsockopt(&client, sockopt::Ipv6TClass, &bits.into()),
        };
        match to {
            IpAddr::V4(_) => setsockopt(&client, sockopt::IpRecvTos, &true),
            IpAddr::V6(_) => setsockopt(&client, sockopt::Ipv6RecvTClass, &true),
        }
        .expect("Linux has it");
        for bits in [0, 1, 2, 3] {
            marks(bits).expect("Linux has it");
            client.send(b"e...").expect("the server's port is open");
            for _ in 0..2 {
                let (mut bytes, mut control) = ([0; 600], nix::cmsg_space!(i32));
                let mut slices = [IoSliceMut::new(&mut bytes)];
                let flags = MsgFlags::empty();
                let message = recvmsg::<()>(client.as_raw_fd(), &mut slices, Some(&mut control), flags);
                let message = message.expect("an answer");
                let ecn = message.cmsgs().expect("there is room").find_map(|control| match control {
                    ControlMessageOwned::Ipv4Tos(tos) => Some(tos),
                    ControlMessageOwned::Ipv6TClass(class) => Some(class as u8),
                    _ => None,
                });
                assert_eq!((ecn, message.bytes), (Some(bits), 500), "{listen} {to}");
            }
        }
    }
}
