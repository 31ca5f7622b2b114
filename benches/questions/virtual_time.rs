//! What the server's policies make of a mix, in virtual time: the figures do not depend on the machine.

use super::harness::{Size, text};
use super::page::Table;
use forebay::metrics::Percentile;
use forebay::overheads::Overheads;
use forebay::sched::PolicyName;
use forebay::sim::{Fit, OpenLoop, Setup, simulate};
use forebay::stats::PRECISION;
use forebay::time::Nanos;
use forebay::workload::Workload;

const WORKERS: usize = 3;
const LOAD: f64 = 0.7;

/// The slowdown of requests of `mix` under each policy; and the policies in the order of their p99.9.
pub(crate) fn policies(size: Size, mix: &str) -> (Table, Vec<&'static str>) {
    let requests = size.of(400_000, 3_000);
    let title = format!(
        "In virtual time, `{mix}`, {WORKERS} workers, load {LOAD}, hand-overs of .1 us, {requests} requests: slowdown, and \
         latency in us"
    );
    let shown = [Percentile::P50, Percentile::P99, Percentile::P99_9];
    let mut table = Table::new(title, &["policy", "p50", "p99", "p99.9", "mean latency of the light", "of the heavy"]);
    let workload: Workload = mix.parse().expect("a workload");
    let mut order = Vec::new();
    for policy in PolicyName::ALL {
        let fit = Fit::new(&workload, WORKERS, LOAD);
        let setup = Setup::with_overheads(fit.policy(*policy).policy(), Overheads::LAB);
        let rate = workload.rate_at(LOAD, WORKERS, 1);
        let warmup = requests / 10;
        let offer = OpenLoop { workload: &workload, rate, flows: 448, seed: 1, deadline: Nanos::MAX, warmup, requests };
        let tally = simulate(&setup, offer.arrivals(WORKERS)).of_queue(LOAD, Nanos::ZERO, PRECISION);
        let fates = tally.fates();
        assert_eq!(fates.received, fates.answered, "{}: every request is answered", policy.name());
        let slowdowns = shown.map(|percentile| tally.slowdown_at(percentile));
        let means = [0, 1].map(|class| text(tally.latency_mean(Some(class)).as_micros_f64()));
        table.row([policy.name().to_owned()].into_iter().chain(slowdowns.map(text)).chain(means).collect());
        order.push((policy.name(), slowdowns[2]));
    }
    order.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    (table, order.into_iter().map(|(name, _)| name).collect())
}
