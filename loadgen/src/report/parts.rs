//! Where requests spend their time, if the server tells: the parts of the latency around each
//! percentile.

use crate::drive::receiver::Reply;
use crate::report::seen::Seen;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use std::collections::BTreeMap;

/// The parts, in the order in which a request meets them. A reply has one number for the waits and
/// the work aside of a request, so the queue has both. The last part has what is left: the network
/// there and back, and the reply.
pub(crate) const PARTS: [&str; 5] = ["slip", "kernel", "queue", "service", "network"];

/// Microseconds of each part, by percentile. They add up to the mean latency of the requests near
/// that percentile.
pub(crate) type LatencyParts = BTreeMap<&'static str, BTreeMap<&'static str, f64>>;

/// A percentile is the mean over the requests on both sides of it: on each, this share of the
/// requests above it.
const NEAR: f64 = 0.1;

/// The parts of the latencies of `seen`. Empty if the server does not tell.
pub(crate) fn parts_us<'a>(seen: impl Iterator<Item = Seen<'a>>) -> LatencyParts {
    let of = |seen: Seen<'a>| (seen.latency().unwrap_or(Nanos::MAX), seen.slip, seen.reply);
    let mut all: Vec<_> = seen.map(of).collect();
    all.sort_unstable_by_key(|(latency, ..)| *latency);
    let mut parts = LatencyParts::new();
    for percentile in Percentile::ALL.into_iter().filter(|_| !all.is_empty()) {
        let rank = (all.len() as f64 * percentile.quantile()).ceil() as usize;
        let near = ((all.len() - rank) as f64 * NEAR) as usize;
        let near = &all[rank.saturating_sub(near + 1)..(rank + near).min(all.len())];
        let Some(of_each) = near.iter().map(parts_of).collect::<Option<Vec<_>>>() else { continue };
        for (number, part) in PARTS.into_iter().enumerate() {
            let sum: f64 = of_each.iter().map(|parts| parts[number].as_micros_f64()).sum();
            parts.entry(part).or_default().insert(percentile.name(), sum / of_each.len() as f64);
        }
    }
    parts
}

/// The parts of one latency; `None` if it was not answered, or the server does not tell.
fn parts_of(&(latency, slip, reply): &(Nanos, Nanos, Option<&Reply>)) -> Option<[Nanos; 5]> {
    let reply = reply.filter(|reply| latency < Nanos::MAX && reply.in_server() > Nanos::ZERO)?;
    let served = reply.served;
    let network = latency.minus(slip).minus(reply.in_server());
    Some([slip, served.kernel_wait, served.queue_wait, served.service, network])
}
