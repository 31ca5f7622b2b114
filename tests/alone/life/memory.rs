//! Does a busy server stay at its size, and is this the size that it states? Method: senders send
//! more than it can serve. Its resident size after 4.5 s is compared with its size after 6 s. By
//! then `auto` has made its first choice. If it has grown, up to seven further comparisons follow,
//! because pages that are used for the first time stop growing. A minute of each way of datagrams:
//! `FOREBAY_SATURATION=60 cargo test --test alone memory:: -- --nocapture`

#![allow(clippy::print_stdout, reason = "a test tells what it measured or skipped")]

use forebay::inside::Memory;
use support::prelude::*;

/// The allowed growth in 1.5 s, as a share: two pages of 28 MB. If each request lost a byte, the
/// growth would be three times as much at 16,000 requests a second.
const GROWTH_MAX: f64 = 0.000_3;
/// The allowed growth of a run on request, which may take minutes.
const GROWTH_MAX_ASKED: f64 = 0.05;
const EARLY: Nanos = Nanos::from_millis(4_500);
/// The server may grow in some of these intervals, but not in all: bounded memory is used for the
/// first time. If each request lost memory, it would grow in all of them.
const TIMES: usize = 24;
const SENDERS: u64 = 2;
const FLOWS: u64 = 16;

#[test]
fn a_saturated_server_does_not_grow() {
    let _alone = alone();
    let asked = env::var("FOREBAY_SATURATION").ok().map(|text| text.parse().expect("FOREBAY_SATURATION is seconds"));
    let (seconds, ways, growth) = match asked {
        None => (6, &["batches"][..], GROWTH_MAX),
        Some(seconds) => (seconds, &["batches", "gro"][..], GROWTH_MAX_ASKED),
    };
    for &io in ways {
        // The gate would admit less and less. Waits of all lengths would need more histogram memory
        // once.
        let shared = ["--workers", "2", "--handler", "spin", "--max-wait", "off", "--gate", "off"];
        let server = Forebay::start(&[&shared[..], &["--io", io]].concat());
        let of_two_workers = (0..64).map(|_| Client::new(server.udp)).collect::<Vec<_>>();
        (0..6).for_each(|_| fill_histograms(&of_two_workers, [0, 1], &[&server]));
        let stop = AtomicBool::new(false);
        let sizes = thread::scope(|scope| {
            let (server, stop) = (&server, &stop);
            let spawn = |sender| scope.spawn(move || saturate(server, sender, stop));
            let senders: Vec<_> = (0..SENDERS).map(spawn).collect();
            thread::sleep(EARLY.into());
            let mut sizes = vec![resident_kib(server, "VmRSS:")];
            while sizes.len() <= TIMES && grows(&sizes, growth) {
                thread::sleep(Nanos::from_secs(seconds).minus(EARLY).into());
                sizes.push(resident_kib(server, "VmRSS:"));
            }
            stop.store(true, Ordering::SeqCst);
            senders.into_iter().for_each(|sender| sender.join().expect("a sender that ends"));
            sizes
        });
        let fates = fates(&latency(server.admin));
        println!("{io}: {sizes:?} KiB after {EARLY}, {seconds} s and so on; {fates:?}");
        assert_adds_up(&fates);
        assert!(fates.kernel_dropped > Some(0), "{io}: it was not saturated: {fates:?}");
        assert!(!grows(&sizes, growth), "{io}: it grew each time, from {EARLY} on: {sizes:?} KiB");
    }
}

/// Whether the last of `sizes` exceeds the size before it by more than the share `growth`. True if
/// there is only one size.
fn grows(sizes: &[u64], growth: f64) -> bool {
    let [.., early, late] = sizes else { return true };
    *late as f64 > *early as f64 * (1.0 + growth)
}

/// Sends from several ports until `stop`: cheap requests and, one in a hundred, an expensive one.
fn saturate(server: &Forebay, sender: u64, stop: &AtomicBool) {
    let clients: Vec<Client> = (0..FLOWS).map(|_| Client::new(server.udp)).collect();
    let cheap = message(&Header::request(sender, 0, Nanos::from_micros(10)), b"payload");
    let costly = message(&Header::request(sender, 1, Nanos::from_micros(500)), b"payload");
    for number in 0_u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let client = &clients[usize::try_from(number % FLOWS).expect("small")];
        client.send(if number % 100 == 0 { &costly } else { &cheap });
    }
}

// Method: compare the anonymous memory of servers of 1 and 14 workers. The difference excludes
// memory that every server has.
#[test]
fn a_worker_takes_what_is_said_and_a_class_only_when_it_occurs() {
    let _alone = alone();
    // Rounds of simultaneous requests must not be shed, nor dropped by the gate.
    let start = |workers| Forebay::start(&["--workers", workers, "--max-wait", "off"]);
    let (small, large) = (start("1"), start("14"));
    let per_worker = || anonymous_bytes(&large).saturating_sub(anonymous_bytes(&small)) / 13;
    let config = Config::from_pairs([("workers", "14")]).expect("a configuration");
    let said = Memory::of(&config);
    await_until(
        || (0.95..1.15).contains(&(per_worker() as f64 / said.worker_bytes as f64)),
        &format!("a worker takes {} bytes, and {said:?}", per_worker()),
    );
    let before = per_worker();
    let of = |server: &Forebay| (0..512).map(|_| Client::new(server.udp)).collect::<Vec<_>>();
    let clients = of(&small).into_iter().chain(of(&large)).collect::<Vec<_>>();
    let (mut rounds, mut grown) = (0, 0);
    // On a busy machine some workers serve no request in a round.
    await_until(
        || {
            fill_histograms(&clients, [0, 5], &[&small, &large]);
            (rounds, grown) = (rounds + 1, per_worker().saturating_sub(before));
            rounds >= 4 && grown as f64 >= 1.6 * said.class_bytes as f64
        },
        "a worker takes less for two classes than is said",
    );
    println!("{before} bytes per worker at start, {grown} for two classes after {rounds} rounds; {said:?}");
    assert!(grown as f64 <= 2.4 * said.class_bytes as f64, "{grown} bytes per worker for two classes, and {said:?}");
}

/// Sends requests of both classes until each worker has served some of them. The requests of a
/// round come at once, because otherwise one spinning worker would take them one by one.
fn fill_histograms(clients: &[Client], classes: [u8; 2], servers: &[&Forebay]) {
    for class in classes {
        let request = message(&Header::request(1, class, Nanos::from_micros(200)), b"");
        clients.iter().for_each(|client| client.send(&request));
        clients.iter().for_each(|client| drop(client.receive_within(GIVE_UP_AFTER).expect("an answer")));
    }
    servers.iter().for_each(|server| drop(latency(server.admin)));
}

/// `RssAnon` of proc(5) in bytes: memory without the program's file, which servers share.
fn anonymous_bytes(server: &Forebay) -> u64 {
    1_024 * resident_kib(server, "RssAnon:")
}

/// The figure of proc(5) with that name, in KiB.
fn resident_kib(server: &Forebay, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).expect("the server lives");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a resident size");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}
