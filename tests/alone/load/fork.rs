//! Does a heavy request take less time than its cost if it forks? Method: four emulated cores need
//! a quarter of the cost. In most of nine runs, the machine may add less than the same time again.

use forebay::handler::builtin::Forking;
use support::prelude::*;

#[test]
fn a_heavy_request_is_faster_in_parts() {
    let _alone = alone();
    let forking = Forking::new(Burner::Sleep, 1_000, Nanos::from_millis(50), 4);
    let settings = [("policy", "levels"), ("workers", "4"), ("time-scale", "1000")];
    let server = Running::emulated(&settings, Bench::new(forking, Nanos::from_secs(10)));
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
