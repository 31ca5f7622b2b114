use super::*;
use crate::connection::wake::Link;
use crate::echo::Echo;
use crate::ids::{Ids, Named};
use crate::inbox::now;
use crate::places::CONNECTIONS_MAX;
use forebay::Service;
use forebay::handler::Teller;
use forebay::time::Nanos;
use quinn_proto::ConnectionIdGenerator;
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

type Handle<'a, F> = fn(&'a Quic<Echo>, &'a mut Shard<Echo>, Event<'a, (), Told>, &'a mut Out<'a>) -> F;

fn length<'a, F>(_: Handle<'a, F>) -> usize {
    size_of::<F>()
}

// Is the future that the server moves for each event short, compared with the future for a new
// connection?
#[test]
fn the_future_of_an_event_is_short() {
    let bytes = length(|quic, shard, event, out| quic.handle(shard, event, out));
    assert!(bytes < 1_024, "{bytes} bytes, and a connection {}", size_of::<Client>());
}

const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// A server with this limit, which cannot complete a handshake.
fn quic(connections_max: usize) -> Quic<Echo> {
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has it")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoCertificate));
    let config = QuicServerConfig::try_from(tls).expect("it has TLS 1.3");
    let application = Arc::new(Echo { compute_here: Nanos::ZERO });
    let bounds = Bounds { connections: connections_max, of_network: usize::MAX, retry_from: 0 };
    Quic::new(application, ServerConfig::with_crypto(Arc::new(config)), bounds)
}

// Is there a bound of the connections, of those of one shard, and of the handshakes? Does an
// end make room again?
#[test]
fn connections_and_handshakes_have_bounds() {
    for (connections_max, fit) in [(10, 10), (1_000_000, HANDSHAKES_MAX)] {
        let quic = quic(connections_max);
        let shard = quic.shard(0);
        let mut taken: Vec<_> = std::iter::from_fn(|| quic.seats(&shard, PEER)).take(fit + 1).collect();
        assert_eq!(taken.len(), fit);
        taken.pop();
        assert!(quic.seats(&shard, PEER).is_some());
    }
    let quic = quic(1_000_000);
    let mut shard = quic.shard(0);
    assert_eq!(shard.fill(|place| quic.client(place)), CONNECTIONS_MAX);
    assert!(quic.seats(&shard, PEER).is_none() && quic.seats(&quic.shard(1), PEER).is_some());
    shard.empty(7);
    assert_eq!(quic.seats(&shard, PEER).map(|seats| seats.place), Some(7));
}

impl Quic<Echo> {
    fn client(&self, place: u16) -> Client {
        let address = ([127, 0, 0, 1], place).into();
        Client {
            protocol: None,
            back: Arc::default(),
            inbox: Arc::default(),
            link: Link { woken: Arc::default(), teller: Teller::default(), shard: 0, place },
            tasks: None,
            peer: address,
            local: address,
            first: ConnectionId::new(&place.to_be_bytes()),
            due: None,
            handshake: None,
            _seats: (
                Seat::take(&self.counts.connections, usize::MAX).expect("there is no limit"),
                NetworkSeat::take(&self.counts.networks, PEER, usize::MAX).expect("there is no limit"),
            ),
        }
    }
}

// Are the datagrams that a connected client sends at once one event, and no others?
#[test]
fn datagrams_of_a_connection_are_joined() {
    let (routes, mut all) = (Routes::default(), Vec::new());
    for place in [1, 2] {
        let id = Ids::new(routes.clone(), Named { shard: 3, place }).generate_cid();
        all.push([&[0x41], &id[..], &[9; 40]].concat());
    }
    assert!(Quic::<Echo>::joins(&all[0], &all[0]) && !Quic::<Echo>::joins(&all[0], &all[1]));
}

// Is a client that was refused known when it tries again, and forgotten after many others?
#[test]
fn refused_clients_are_known() {
    let quic = quic(1);
    let (mut shard, id) = (quic.shard(0), |number: u64| ConnectionId::new(&number.to_be_bytes()));
    (0..40).for_each(|number| shard.refuse(id(number)));
    (0..40).for_each(|_| shard.refuse(id(39)));
    assert_eq!(
        (0..50).filter(|number| shard.was_refused(id(*number))).collect::<Vec<_>>(),
        (8..40).collect::<Vec<_>>()
    );
}

// Is a packet with an ID of this server preferred to others, and does each find its shard?
#[test]
fn packets_of_known_clients_are_marked() {
    let quic = quic(1);
    let id = Ids::new(quic.maker.routes.clone(), Named { shard: 77, place: 3 }).generate_cid();
    let peer = ([192, 0, 2, 1], 9).into();
    let admitted = |bytes: &[u8]| format!("{:?}", quic.admit(&Arrival::new(bytes, peer, peer, now())));
    let known = admitted(&[&[0x41], &id[..], &[9; 40]].concat());
    assert!(known.contains("validated: true") && known.contains("Number(77)"), "{known}");
    let initial = [&[0xc3, 0, 0, 0, 1, 8][..], &[7; 1_194]].concat();
    for bytes in [&initial[..], &[0x41; 60]] {
        let unknown = admitted(bytes);
        assert!(unknown.contains("validated: false"), "{unknown}");
    }
}
