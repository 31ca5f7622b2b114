//! Does a heavy request take less time than it costs, when it forks? Method: emulated cores, on which one worker takes no less
//! than the cost, ever, and four take a quarter of it and what the machine makes of that, which is less than as much again in
//! most of nine times. A wake-up of those who should help that is often lost does not pass for a machine that is busy.

use crate::support::client::Client;
use crate::support::{Running, alone};
use forebay::handler::builtin::{Bench, Burner, Forking};
use forebay::time::{Nanos, clock};
use forebay::wire::{Header, Status};

#[test]
fn a_heavy_request_is_faster_in_parts() {
    let _alone = alone();
    let forking = Forking::new(Burner::Sleep, 1_000, Nanos::from_millis(50), 4);
    let emulated =
        [("policy", "ondemand"), ("workers", "4"), ("burn", "sleep"), ("overheads", "none"), ("time-scale", "1000")];
    let server = Running::start(&emulated, Bench::new(forking, Nanos::from_secs(10)));
    let cost = Nanos::from_millis(400);
    let time = || {
        let begin = clock::now();
        let header = Client::new(server.udp).ask(&Header::request(1, 0, cost), b"").header;
        assert_eq!((header.status, header.served.service), (Status::Ok, cost), "parts count as service");
        clock::now().minus(begin)
    };
    let mut times: Vec<Nanos> = (0..9).map(|_| time()).collect();
    times.sort_unstable();
    assert!(times[4].times(2) < cost, "most took more than half of their cost: {times:?}");
}
