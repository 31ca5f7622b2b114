//! Do heavy requests reach the heavy pool - by class, by hop, by slice - and do short ones stay in
//! the front pool? Method: replies say which pool finished them and after how many hops.

use support::prelude::*;

const POOLS: [(&str, &str); 2] = [("policy", "pools"), ("pools", "front=1,heavy=1")];
const ROUNDS: u64 = 20;

/// The pool and the hops in the reply to a request of `cost` and `class`.
fn way(server: &Running, class: u8, cost: Nanos, payload: &[u8]) -> (u8, u8) {
    // A new port for each, so that some reach the socket of the heavy worker, which must not
    // receive.
    let header = Client::new(server.udp).ask(&Header::request(1, class, cost), payload).header;
    assert_eq!(header.status, Status::Ok);
    assert_eq!(u16::from(header.served.pool), header.served.worker, "worker 0 is the front, worker 1 the heavy pool");
    (header.served.pool, header.served.hops)
}

// Under a policy without pools, a request that hops continues on its worker.
#[test]
fn a_class_and_a_hop_lead_to_their_pool() {
    for (classify, of_class) in [("header", (1, 0)), ("none", (0, 0))] {
        let (server, _) = run_scripted(&[&POOLS[..], &[("classify", classify)]].concat());
        for _ in 0..ROUNDS {
            assert_eq!(way(&server, 0, Nanos::ZERO, b""), (0, 0), "{classify}");
            assert_eq!(way(&server, 1, Nanos::ZERO, b""), of_class, "{classify}");
            assert_eq!(way(&server, 7, Nanos::ZERO, b""), of_class, "{classify}: no further than there are pools");
            assert_eq!(way(&server, 0, Nanos::ZERO, &[Act::Hop as u8]), (1, 1), "{classify}");
        }
    }
    let (server, _) = run_scripted(&[("policy", "steal"), ("workers", "2")]);
    for _ in 0..ROUNDS {
        let header = Client::new(server.udp).ask(&Header::request(1, 0, Nanos::ZERO), &[Act::Hop as u8]).header;
        assert_eq!((header.status, header.served.pool, header.served.hops), (Status::Ok, 0, 0));
    }
}

// The slice and the costs are so long that a busy machine makes no short request heavy.
#[test]
fn what_turns_out_heavy_goes_on_behind() {
    let spin = Bench::new(Spin::new(Burner::calibrated(), 1), Nanos::from_secs(10));
    let with_slice = |slice| [&POOLS[..], &[("slice", slice)]].concat();
    for (what, server, [light, heavy], rounds) in [
        ("slice", Running::start(&with_slice("100ms"), spin), [10, 400_000], 3),
        // Time is scaled, so the slice of 50 us is 5 ms. Service is counted on the emulated core,
        // which does not oversleep, so these limits are exact.
        ("emulated slice", emulated(100, &POOLS), [4_000, 20_000], ROUNDS),
    ] {
        for _ in 0..rounds {
            assert_eq!(way(&server, 0, Nanos::from_micros(light), b""), (0, 0), "{what}");
            assert_eq!(way(&server, 0, Nanos::from_micros(heavy), b""), (1, 1), "{what}");
        }
    }
}
