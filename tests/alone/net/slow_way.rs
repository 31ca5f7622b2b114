//! Do replies to peers that do not exist block honest answers? Method: a network namespace, and
//! requests with the addresses of absent neighbours.

#![allow(clippy::print_stdout, reason = "a test tells what it measured")]

use forebay::inside::net::SEND_BUFFER_BYTES;
use support::prelude::*;

// 6,000 requests a second come with 200 absent addresses, and the kernel keeps their replies. Then
// come 300 honest requests.
#[test]
fn absent_neighbours_do_not_stop_honest_answers() {
    let _alone = alone();
    if !in_own_network("net::slow_way::absent_neighbours_do_not_stop_honest_answers") {
        return;
    }
    let allowed = fs::read_to_string("/proc/sys/net/core/wmem_max").expect("a setting").trim().parse::<usize>();
    if allowed.expect("a number") < SEND_BUFFER_BYTES {
        return skip(format_args!("net.core.wmem_max of this host is below {SEND_BUFFER_BYTES} (deploy/sysctl)"));
    }
    lonely_device();
    let server = Running::start(&[("listen", "[::]:0"), ("workers", "1")], Bench::new(Echo, Nanos::from_secs(1)));
    let targets = [SocketAddr::from((HERE, server.udp.port())), SocketAddr::from((HERE_V6, server.udp.port()))];
    let done = AtomicBool::new(false);
    let (asked, answered, forged) = thread::scope(|scope| {
        let forger = scope.spawn(|| forge(&targets, &done));
        // The kernel first gives up on a neighbour after three seconds.
        thread::sleep(Nanos::from_millis(3_300).into());
        let clients = targets.map(|target| Client::at(target.ip(), target));
        let (asked, mut answered) = (300, 0);
        for id in 0..asked {
            let client = &clients[id as usize % 2];
            client.request(id, Nanos::ZERO, b"honest");
            answered += u64::from(client.receive_within(Nanos::from_millis(100)).is_some());
            thread::sleep(Nanos::from_millis(5).into());
        }
        done.store(true, Ordering::Relaxed);
        (asked, answered, forger.join().expect("a forger that ends"))
    });
    let (forged, seconds) = forged;
    println!(
        "{answered} of {asked} honest requests answered, beside {:.0} forged ones a second",
        forged as f64 / seconds
    );
    let text = server.metrics();
    println!("buffer full: {}", metric(&text, "forebay_unsent_total{reason=\"buffer_full\"}"));
    assert!(forged as f64 / seconds > 3_000.0, "this machine forges {forged} in {seconds} s, which is no attack");
    assert!(answered * 100 >= asked * 99, "{answered} of {asked} honest requests were answered");
}

/// Sends requests with the addresses of 100 absent neighbours of each family, 6,000 per second in
/// all, until `done`. Returns how many, and in how many seconds.
fn forge(targets: &[SocketAddr; 2], done: &AtomicBool) -> (u64, f64) {
    const ABSENT: u8 = 100;
    const EVERY: Nanos = Nanos::from_millis(10);
    const AT_ONCE: usize = 60;
    let sources = |last: u8| {
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 1, last.into());
        [(SocketAddr::from(([10, 9, 7, last], 5_000)), targets[0]), ((v6, 5_000).into(), targets[1])]
    };
    let absent: Vec<Raw> = (1..=ABSENT)
        .flat_map(sources)
        .map(|(source, target)| Raw::new(source, target).expect("root of this network"))
        .collect();
    let request = message(&Header::request(0, 0, Nanos::ZERO), b"forged");
    let (began, mut sent) = (clock::now(), 0);
    while !done.load(Ordering::Relaxed) {
        for _ in 0..AT_ONCE {
            absent[sent % absent.len()].send(&request).expect("sent");
            sent += 1;
        }
        let next = began.plus(EVERY.times((sent / AT_ONCE) as u64));
        thread::sleep(next.minus(clock::now()).into());
    }
    (sent as u64, clock::now().minus(began).as_secs_f64())
}
