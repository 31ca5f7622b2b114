//! Are the datagrams of one reply sent separately, in order, from the address that was asked,
//! within the bounds of one reply? Method: each request says how long each datagram must be.
//! Clients are connected, so they receive only from this address.

use crate::support::prelude::*;
use forebay::handler::Served;

/// The first byte of a request with a validated address. Its reply may have [`LONGEST`] bytes.
const PROVEN: u8 = b'p';
/// The first byte of a request whose address may be forged, to which the handler tries to write
/// [`LONGEST`] bytes.
const FORGED: u8 = b'f';
/// The first byte of a request whose address may be forged. Its reply is no longer than itself.
const PLAIN: u8 = b'-';
const LONGEST: usize = 2_000;
/// Fills a request up to its length.
const FILLING: u8 = 255;

/// For each byte of the request after the first, writes a datagram of eight times as many bytes.
/// Each byte is the number of the datagram; sealing replaces the first byte by the length. It
/// ignores errors for datagrams that do not fit.
struct Several;

impl Handler for Several {
    type Ticket = ();

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        let limit = if arrival.bytes()[0] == PLAIN { arrival.bytes().len() } else { LONGEST };
        Ok(Admitted::new(()).reply_limit(limit).validated(arrival.bytes()[0] == PROVEN))
    }

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        for (number, eighths) in request.bytes()[1..].iter().take_while(|byte| **byte != FILLING).enumerate() {
            assert_eq!(reply.begin_datagram().is_err(), reply.datagrams().count() == 8 && number > 7);
            let _ = reply.put(&[number as u8; 8 * 256][..usize::from(*eighths) * 8]);
            checkpoint().await;
            if number == 2 {
                hop(1).await;
            }
        }
        if reply.datagrams().count() == 5 {
            let eighths: Vec<u8> = reply.datagrams().map(|datagram| (datagram.len() / 8) as u8).collect();
            assert_eq!(eighths, request.bytes()[1..6]);
        }
    }

    fn refuse(&self, _: Request<'_>, unserved: Unserved, reply: &mut Reply<'_>) {
        reply.put(&[unserved.status as u8]).expect("requests are longer");
        reply.begin_datagram().expect("the second one");
        reply.put(b"no").expect("requests are longer");
    }

    fn seal(&self, _: Request<'_>, _: &Served, reply: &mut [u8]) {
        reply[0] = (reply.len() / 8) as u8;
    }
}

fn request(kind: u8, eighths: &[u8]) -> Vec<u8> {
    [&[kind], eighths].concat()
}

/// Receives the datagrams of a reply. Their lengths are eight times these numbers.
#[track_caller]
fn assert_hears(socket: &UdpSocket, eighths: &[u8], about: &str) {
    let mut buffer = [0; LONGEST];
    for (number, eighths) in eighths.iter().enumerate().filter(|(_, eighths)| **eighths > 0) {
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| panic!("{about}, datagram {number}: {error}"));
        let (seal, rest) = buffer[..length].split_at(1);
        assert_eq!((seal, length), (&[*eighths][..], usize::from(*eighths) * 8), "{about}, datagram {number}");
        assert!(rest.iter().all(|byte| usize::from(*byte) == number), "{about}, datagram {number}");
    }
}

/// Lengths that give one GSO batch, several, and none. An empty datagram is not sent.
const REPLIES: [&[u8]; 6] = [&[9; 8], &[1, 2, 3, 4], &[7, 6, 5, 5], &[3, 3, 2, 3, 3], &[4, 0, 5, 0], &[40]];

/// Requests every reply for each of `clients`, from all of them at once each time.
fn assert_served(clients: &[UdpSocket], about: &str) -> u64 {
    for eighths in REPLIES {
        clients.iter().for_each(|client| assert!(client.send(&request(PROVEN, eighths)).is_ok()));
        clients.iter().for_each(|client| assert_hears(client, eighths, &format!("{about}, {eighths:?}")));
    }
    (REPLIES.len() * clients.len()) as u64
}

// Is the order kept under every policy, even if the request moves between two datagrams? Does it
// count as one answered request?
#[test]
fn the_datagrams_of_a_reply_come_in_order() {
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Several);
        let clients: Vec<UdpSocket> = (0..32).map(|_| client(&server)).collect();
        let received = assert_served(&clients, policy);
        server.ends_as(fates! { received, answered: received }, policy);
    }
}

#[test]
fn each_datagram_leaves_from_the_address_that_was_asked() {
    let v4: &[IpAddr] = &[1, 2, 7].map(|host| Ipv4Addr::new(127, 0, 0, host).into());
    let both = [v4, &[Ipv6Addr::LOCALHOST.into()]].concat();
    for (listen, hosts) in
        [("127.0.0.7:0", &v4[2..]), ("127.0.0.1:0,127.0.0.2:0,[::1]:0", &[]), ("0.0.0.0:0", v4), ("[::]:0", &both)]
    {
        for io in ["batches", "gro"] {
            let server = Running::start(&[("workers", "2"), ("io", io), ("listen", listen)], Several);
            let of = |host: &IpAddr| SocketAddr::new(*host, server.udp.port());
            let asked = if hosts.is_empty() { server.addresses.clone() } else { hosts.iter().map(of).collect() };
            let clients: Vec<UdpSocket> = (0..12).flat_map(|_| asked.iter().copied().map(client_of)).collect();
            let served = assert_served(&clients, &format!("{io} {listen}"));
            assert_eq!(server.stop().totals.fates.answered, served, "{io} {listen}");
        }
    }
}

/// Checks the datagrams of the answer to a request that was not served.
#[track_caller]
fn assert_refused(socket: &UdpSocket, status: Status) {
    let mut buffer = [0; LONGEST];
    let mut receive = || socket.recv(&mut buffer).map(|length| buffer[..length].to_vec()).expect("an answer");
    assert_eq!([receive(), receive()], [vec![status as u8], b"no".to_vec()]);
}

#[test]
fn too_much_is_not_sent_not_even_in_part() {
    for policy in policies() {
        let server = Running::start(&sized(policy, 4), Several);
        let client = client(&server);
        for eighths in [&[1; 9][..], &[100, 100, 100], &[251, 1], &[1, 251]] {
            client.send(&request(PROVEN, eighths)).expect("sent");
            assert_refused(&client, Status::Failed);
        }
        // A datagram without content is not sent, also as the ninth.
        for eighths in [&[1, 1, 1, 1, 1, 1, 1, 1][..], &[1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1], &[125, 125]] {
            client.send(&request(PROVEN, eighths)).expect("sent");
            assert_hears(&client, eighths, policy);
        }
        assert_eq!(server.quiescent(7), fates! { received: 7, answered: 3, failed: 4 }, "{policy}");
        assert_eq!(server.count("failed", "overflow"), 4.0, "{policy}");
    }
}

#[test]
fn datagrams_share_the_credit_of_their_source() {
    let server = Running::start(&[("workers", "2")], Several);
    let client = client(&server);
    // Requests of 64 bytes.
    let ask = |kind: u8, eighths: &[u8]| {
        let mut bytes = request(kind, eighths);
        assert!(bytes.len() <= 64);
        bytes.resize(64, FILLING);
        client.send(&bytes).expect("sent");
    };
    for kind in [PLAIN, FORGED] {
        ask(kind, &[1; 8]);
        assert_hears(&client, &[1; 8], "as many bytes as came");
    }
    ask(PLAIN, &[1, 1, 1, 1, 1, 1, 1, 2]);
    assert_refused(&client, Status::Failed);
    ask(FORGED, &[8, 1]);
    assert_refused(&client, Status::ShedRate);
    // This does not depend on how much may be sent to the source.
    ask(FORGED, &[1; 9]);
    assert_refused(&client, Status::Failed);
    assert_eq!(server.quiescent(5), fates! { received: 5, answered: 2, failed: 2, shed_rate: 1 });
    // Credit that short replies leave is used by long ones within a second, and no more than that.
    let (mut sent, mut received, mut longest) = (0, 0, 0);
    let mut buffer = [0; LONGEST];
    for _ in 0..200 {
        ask(FORGED, &[1, 1]);
        assert_hears(&client, &[1, 1], "a short one");
        ask(FORGED, &[6, 6]);
        let first = client.recv(&mut buffer).expect("an answer");
        let second = client.recv(&mut buffer).expect("both, or a refusal of two");
        longest = longest.max(first + second);
        (sent, received) = (sent + 128, received + 16 + first + second);
        assert!(received <= sent, "{received} received for {sent}");
    }
    assert_eq!(longest, 96, "nothing was left over");
}
