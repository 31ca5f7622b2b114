//! Do replies to one peer leave as one GSO batch? They wait for at most 8 us, in which unoptimised
//! code serves only one request, so this is a release test.

use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use std::io::IoSliceMut;
use support::prelude::*;

/// Requests of a peer in a round. On a slow machine the server takes the first ones after a wake-up
/// for long ones, and sends the next 32 replies one by one. So a round must have more requests.
const ROUND: u64 = 40;

/// The number of replies in an expected batch. It is so small that the slowest machine serves their
/// requests before the first reply has waited for too long.
const GATHERED: u64 = 6;

/// Bytes of a request, and of its reply.
const LENGTH: usize = 72;

fn requests(round: u64) -> Vec<u8> {
    let payload = [b'p'; LENGTH - HEADER_BYTES];
    let ids = round * ROUND..(round + 1) * ROUND;
    ids.flat_map(|id| message(&Header::request(id, 0, Nanos::ZERO), &payload)).collect()
}

#[test]
fn replies_to_one_peer_leave_as_a_train() {
    for listen in ["127.0.0.1:0", "[::1]:0"] {
        let settings = [("listen", listen), ("workers", "1"), ("policy", "isolated")];
        let server = Running::start(&settings, Bench::new(Echo, Nanos::from_secs(1)));
        let [first, second] = [(); 2].map(|()| Client::new(server.udp));
        for client in [&first, &second] {
            setsockopt(&client.socket, sockopt::UdpGroSegment, &true).expect("a kernel with GSO batches");
        }
        // On a busy machine a request may seem to run long without a checkpoint. Then at most
        // 16,384 later replies leave one by one.
        let (mut longest, mut rounds) = (0, 0);
        while longest < GATHERED && rounds < 1_000 {
            let round = rounds;
            rounds += 1;
            for client in [&first, &second] {
                client.send_train(&requests(round), LENGTH as u16);
            }
            for client in [&first, &second] {
                longest = longest.max(receive_round(client, round) as u64);
            }
        }
        assert!(longest >= GATHERED, "{listen}: the longest GSO batch of {rounds} rounds: {longest}");
        assert_eq!(server.stop().totals.fates.answered, 2 * rounds * ROUND);
    }
}

/// Receives the replies of a round, in order; returns how many came in the longest GSO batch.
fn receive_round(client: &Client, round: u64) -> usize {
    let (mut next, mut longest) = (round * ROUND, 0);
    while next < (round + 1) * ROUND {
        let mut bytes = vec![0; 1 << 16];
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let mut space = cmsg_space!(i32);
        let flags = MsgFlags::empty();
        let received = recvmsg::<()>(client.socket.as_raw_fd(), &mut slices, Some(&mut space), flags).expect("replies");
        let length = received.bytes;
        let cut = received.cmsgs().expect("enough space").find_map(|control| match control {
            ControlMessageOwned::UdpGroSegments(length) => usize::try_from(length).ok(),
            _ => None,
        });
        let replies: Vec<&[u8]> = bytes[..length].chunks(cut.unwrap_or(length)).collect();
        longest = longest.max(replies.len());
        for reply in replies {
            assert_eq!((Header::parse(reply).expect("a reply").id, reply.len()), (next, LENGTH));
            next += 1;
        }
    }
    longest
}
