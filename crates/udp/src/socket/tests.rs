use super::*;
use crate::io::{RECV_BUFFER_BYTES, SEND_BUFFER_BYTES};

fn opened(workers: usize, io: Io) -> Group {
    Group::open(&[SocketAddr::from((Ipv4Addr::LOCALHOST, 0))], workers, io).expect("a free port")
}

// Are both buffers as large as requested or allowed, and is that size reported?
#[test]
fn buffers_are_as_large_as_allowed() {
    let group = opened(2, Io::Batches);
    for (name, wanted, granted) in [
        ("rmem_max", RECV_BUFFER_BYTES, group.recv_buffer_bytes),
        ("wmem_max", SEND_BUFFER_BYTES, group.send_buffer_bytes),
    ] {
        let allowed = std::fs::read_to_string(format!("/proc/sys/net/core/{name}")).expect("a setting");
        let allowed: usize = allowed.trim().parse().expect("a number");
        assert_eq!(granted, wanted.min(allowed), "{name}");
    }
    for socket in &group.sockets {
        assert_eq!(socket.inner().send_buffer_size().expect("a socket") / 2, group.send_buffer_bytes);
    }
}

// Are sockets of another process adopted only if all are UDP sockets, and do they get all options
// of a group?
#[test]
fn sockets_are_adopted_as_a_group() {
    let (group, other) = (opened(2, Io::Gro), opened(2, Io::Gro));
    let copies = |group: &Group| -> Vec<UdpSocket> {
        group.sockets.iter().map(|socket| socket.try_clone().expect("a descriptor")).collect()
    };
    let adopt = |sockets: Vec<UdpSocket>| {
        Group::adopt(by_address(sockets, UdpSocket::local_addr).expect("addresses"), Io::Batches)
    };
    let adopted = adopt(copies(&group)).expect("a group");
    let inodes = |group: &Group| group.sockets.iter().map(|socket| socket.inode).collect::<Vec<_>>();
    assert_eq!((&adopted.addresses, inodes(&adopted)), (&group.addresses, inodes(&group)));
    assert!(nix::sys::socket::getsockopt(&*adopted.sockets[1], sockopt::ReceiveTimestampns).expect("an option"));
    // The adopted sockets are ordered by worker, whatever their order was.
    let both = adopt(copies(&group).into_iter().chain(copies(&other)).collect()).expect("a group");
    assert_eq!(both.addresses, [&group.addresses[..], &other.addresses].concat());
    let [own, others] = [inodes(&group), inodes(&other)];
    assert_eq!(inodes(&both), [own[0], others[0], own[1], others[1]]);
    let tcp =
        UdpSocket::from(std::os::fd::OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").expect("a free port")));
    let unbound = UdpSocket::from(std::os::fd::OwnedFd::from(
        socket2::Socket::new(socket2::Domain::IPV4, Type::DGRAM, None).expect("a socket"),
    ));
    for wrong in [tcp, unbound] {
        let why = adopt(vec![wrong]).expect_err("refused").to_string();
        assert!(why.contains("is not a bound UDP socket; allowed: "), "{why}");
    }
}

// Is every buffer of a group reduced to the requested size, and none enlarged?
#[test]
fn receive_buffers_can_be_limited() {
    let mut group = opened(2, Io::Batches);
    let granted = group.recv_buffer_bytes;
    for (limit, expected) in [(usize::MAX, granted), (100_000, 100_000), (150_000, 100_000)] {
        group.limit_recv_buffers(limit).expect("sockets");
        assert_eq!(group.recv_buffer_bytes, expected);
        for socket in &group.sockets {
            assert_eq!(socket.inner().recv_buffer_size().expect("a socket") / 2, expected);
        }
    }
}

// Does no socket learn a path MTU from ICMP messages, also that of a transport protocol, whose
// datagrams are never fragmented?
#[test]
fn path_lengths_are_not_learnt() {
    use rustix::net::sockopt::{ip_mtu_discover, ipv6_mtu_discover};
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
        let address: SocketAddr = address.parse().expect("an address");
        let group = Group::open(&[address], 2, Io::Batches).expect("a free port");
        let modes = |v4, v6| {
            for socket in &group.sockets {
                assert_eq!(ip_mtu_discover(&**socket), Ok(v4), "{address}");
                assert!(address.is_ipv4() || ipv6_mtu_discover(&**socket) == Ok(v6), "{address}");
            }
        };
        modes(Ipv4PathMtuDiscovery::INTERFACE, Ipv6PathMtuDiscovery::INTERFACE);
        group.be_transport().expect("sockets");
        modes(Ipv4PathMtuDiscovery::PROBE, Ipv6PathMtuDiscovery::PROBE);
    }
}

// Does each address have a socket for every worker, on its own port, ordered by worker?
#[test]
fn a_group_has_several_addresses() {
    let addresses: [SocketAddr; 3] =
        ["127.0.0.1:0", "127.0.0.2:0", "[::1]:0"].map(|address| address.parse().expect("an address"));
    let group = Group::open(&addresses, 2, Io::Batches).expect("free ports");
    let bound: Vec<_> = group.sockets.iter().map(|socket| socket.local_addr().expect("bound")).collect();
    assert_eq!(bound, [&group.addresses[..], &group.addresses].concat());
    assert_eq!(group.sockets.iter().map(|socket| socket.address).collect::<Vec<_>>(), [0, 1, 2, 0, 1, 2]);
    for (bound, asked) in group.addresses.iter().zip(addresses) {
        assert!(bound.ip() == asked.ip() && bound.port() != 0, "{bound}");
    }
    let taken = Group::open(&["127.0.0.3:0".parse().expect("an address"), bound[1]], 1, Io::Batches);
    let error = taken.expect_err("the second is taken");
    assert_eq!((error.0, error.1.kind()), (bound[1], io::ErrorKind::AddrInUse));
    // Once every socket has left, datagrams to any of the addresses find no socket.
    let client = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    client.send_to(b"x", bound[1]).expect("sent");
    assert!(group.has_waiting(), "in the socket of the second address");
    group.leave().expect("connected to themselves");
    for socket in &group.sockets {
        let (own, peer) = (socket.local_addr().expect("bound"), socket.peer_addr());
        assert_eq!(peer.expect("connected"), own);
    }
}

// Can both families have a wildcard on one port? Does a single IPv6 wildcard serve both?
#[test]
fn the_wildcards_of_both_families_share_a_port() {
    let any = |text: &str, port| SocketAddr::new(text.parse().expect("an address"), port);
    let only_v6 = |group: &Group, number: usize| group.sockets[number].inner().only_v6().expect("a socket of IPv6");
    let alone = Group::open(&[any("::", 0)], 1, Io::Batches).expect("a free port");
    assert!(!only_v6(&alone, 0), "for both families");
    let port = alone.addresses[0].port();
    drop(alone);
    // Several ports are tried, because another program may take one meanwhile.
    let ports = port..port.saturating_add(20);
    let both = ports.map(|port| [any("0.0.0.0", port), any("::", port)]);
    let group = both.into_iter().find_map(|both| Group::open(&both, 2, Io::Batches).ok()).expect("a free port");
    assert!(only_v6(&group, 1) && only_v6(&group, 3));
}
