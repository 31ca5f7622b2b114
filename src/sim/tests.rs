//! Does virtual time do what the policies say, and is it reproducible?

use super::*;
use crate::sched::{Isolated, Kind, Pools, Scale, Topology};
use crate::workload::Workload;

#[test]
#[ignore = "a measurement"]
fn speed() {
    let workload: Workload = "extreme-bimodal".parse().unwrap();
    for (name, kind) in [
        ("steal", Scale::new(1).steal()),
        ("ondemand", Scale::new(1).ondemand(Nanos::from_micros(5))),
        ("hybrid", Scale::new(1).hybrid(Nanos::from_micros(5), 3)),
        ("isolated", Kind::Isolated(Isolated)),
        ("pools", Kind::Pools(Pools { slice: Nanos::from_micros(5) })),
    ] {
        for load in [0.3, 0.7, 0.9] {
            let setup = Setup {
                overheads: Overheads::LAB,
                ..Setup::ideal(Policy::new(kind.clone(), &Topology::new(&[3, 11])))
            };
            let offer = Offer {
                workload: &workload,
                rate: workload.rate_at(load, 14, 1),
                flows: 448,
                seed: 1,
                warmup: 100_000,
                requests: 3_000_000,
            };
            let start = crate::time::clock::now();
            let tally = simulate(&setup, offer.incoming(14));
            let took = crate::time::clock::now().minus(start);
            println!(
                "{name} {load} {:.2} M/s {:?} p50 {:.2} p99 {:.2} p999 {:.2}",
                3.1 / took.as_secs_f64(),
                tally.fates(),
                tally.slowdown_at(crate::metrics::Percentile::P50),
                tally.slowdown_at(crate::metrics::Percentile::P99),
                tally.slowdown_at(crate::metrics::Percentile::P99_9)
            );
        }
    }
}
