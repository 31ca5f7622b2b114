//! Is a reply sent within the bounds of one reply and of its source, from the address that was
//! asked? Method: each request says how long its reply must be. Clients are connected, so they
//! receive only from this address.

use forebay::handler::Served;
use support::prelude::*;

/// The first byte of a request with a validated address. Its reply may have [`LONGEST`] bytes.
const PROVEN: u8 = b'p';
/// The first byte of a request whose address may be forged, to which the handler tries to write
/// [`LONGEST`] bytes.
const FORGED: u8 = b'f';
/// The first byte of a request whose address may be forged. Its reply is no longer than itself.
const PLAIN: u8 = b'-';
const LONGEST: usize = 2_000;

/// Writes a reply of eight times as many bytes as the second byte of the request says, half of it
/// after it may have moved. Sealing replaces the first byte by the length. It ignores errors for
/// what does not fit.
struct Long;

impl Handler for Long {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let limit = if arrival.bytes()[0] == PLAIN { arrival.bytes().len() } else { LONGEST };
        Ok(Admitted::new(()).reply_limit(limit).validated(arrival.bytes()[0] == PROVEN))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        let half = [b'x'; 8 * 256][..usize::from(request.bytes()[1]) * 4].to_vec();
        let _ = reply.put(&half);
        checkpoint().await;
        hop(1).await;
        let _ = reply.put(&half);
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8]).expect("requests are longer");
    }

    fn seal(&self, _: Request<'_>, _: &Served, reply: &mut [u8]) {
        reply[0] = (reply.len() / 8) as u8;
    }
}

#[track_caller]
fn hear(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2 * LONGEST];
    let length = socket.recv(&mut buffer).expect("an answer");
    buffer[..length].to_vec()
}

/// Receives a reply of eight times `eighths` bytes.
#[track_caller]
fn assert_hears(socket: &UdpSocket, eighths: u8, about: &str) {
    let reply = hear(socket);
    let (seal, rest) = reply.split_at(1);
    assert_eq!((seal, reply.len()), (&[eighths][..], usize::from(eighths) * 8), "{about}");
    assert!(rest.iter().all(|byte| *byte == b'x'), "{about}");
}

const REPLIES: [u8; 4] = [1, 9, 40, 250];

/// Requests every reply for each of `clients`, from all of them at once each time.
fn assert_served(clients: &[UdpSocket], about: &str) -> u64 {
    for eighths in REPLIES {
        clients.iter().for_each(|client| assert!(client.send(&[PROVEN, eighths]).is_ok()));
        clients.iter().for_each(|client| assert_hears(client, eighths, &format!("{about}, {eighths}")));
    }
    (REPLIES.len() * clients.len()) as u64
}

#[test]
fn each_reply_leaves_from_the_address_that_was_asked() {
    let v4: &[IpAddr] = &[1, 2, 7].map(|host| Ipv4Addr::new(127, 0, 0, host).into());
    let both = [v4, &[Ipv6Addr::LOCALHOST.into()]].concat();
    for (listen, hosts) in
        [("127.0.0.7:0", &v4[2..]), ("127.0.0.1:0,127.0.0.2:0,[::1]:0", &[]), ("0.0.0.0:0", v4), ("[::]:0", &both)]
    {
        for io in ["batches", "gro"] {
            let server = Running::start(&[("workers", "2"), ("io", io), ("listen", listen)], Long);
            let of = |host: &IpAddr| SocketAddr::new(*host, server.udp.port());
            let asked = if hosts.is_empty() { server.addresses.clone() } else { hosts.iter().map(of).collect() };
            let clients: Vec<UdpSocket> = (0..12).flat_map(|_| asked.iter().copied().map(client_of)).collect();
            let served = assert_served(&clients, &format!("{io} {listen}"));
            assert_eq!(server.stop().totals.fates.answered, served, "{io} {listen}");
        }
    }
}

#[track_caller]
fn assert_refused(socket: &UdpSocket, status: Status) {
    assert_eq!(hear(socket), [status as u8]);
}

#[test]
fn too_much_is_not_sent_not_even_in_part() {
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Long);
        let client = client(&server);
        for eighths in [251, 255] {
            client.send(&[PROVEN, eighths]).expect("sent");
            assert_refused(&client, Status::Failed);
        }
        client.send(&[PROVEN, 250]).expect("sent");
        assert_hears(&client, 250, policy);
        assert_eq!(server.quiescent(3), fates! { received: 3, answered: 1, failed: 2 }, "{policy}");
        assert_eq!(server.count("failed", "overflow"), 2.0, "{policy}");
    }
}

#[test]
fn replies_share_the_credit_of_their_source() {
    let server = Running::start(&[("workers", "2")], Long);
    let client = client(&server);
    // Requests of 64 bytes.
    let ask = |kind: u8, eighths: u8| {
        let mut bytes = [0; 64];
        (bytes[0], bytes[1]) = (kind, eighths);
        client.send(&bytes).expect("sent");
    };
    for kind in [PLAIN, FORGED] {
        ask(kind, 8);
        assert_hears(&client, 8, "as many bytes as came");
    }
    ask(PLAIN, 9);
    assert_refused(&client, Status::Failed);
    ask(FORGED, 9);
    assert_refused(&client, Status::ShedRate);
    assert_eq!(server.quiescent(4), fates! { received: 4, answered: 2, failed: 1, shed_rate: 1 });
    // Credit that short replies leave is used by long ones within a second, and no more than that.
    let (mut sent, mut received, mut longest) = (0, 0, 0);
    for _ in 0..200 {
        ask(FORGED, 2);
        assert_hears(&client, 2, "a short one");
        ask(FORGED, 12);
        let reply = hear(&client).len();
        longest = longest.max(reply);
        (sent, received) = (sent + 128, received + 16 + reply);
        assert!(received <= sent, "{received} received for {sent}");
    }
    assert_eq!(longest, 96, "nothing was left over");
}
