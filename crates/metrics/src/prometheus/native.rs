//! Classic and native histograms. At each scrape, the bins of the measurements are summed into
//! native buckets, which grow by 2.2 %.
//!
//! Native bucket n holds the values above `2^((n-1)/32)` up to `2^(n/32)`. All servers have the
//! same bounds, so the histograms of a fleet can be added. Each value counts as the highest value
//! of its bin, as on `/latency`. So a quantile is wrong by at most one bucket.

use crate::prometheus::family::{Histogram, Value};
use crate::snapshot::Snapshot;
use crate::window::{Distribution, Series};

/// The schema with 2^5 buckets per factor of two. It is the coarsest that is accurate to 2.5 %.
const SCHEMA: i32 = 5;
/// Values up to this count as zero, as in Prometheus' client libraries.
const ZERO_THRESHOLD: f64 = 1.0 / u128::MAX as f64;

/// The histogram of `series`, native and classic, with the classic `bounds` and the sum divided by
/// `unit`. Every bin belongs to exactly one bucket, so the buckets add up to the count.
pub(super) fn histogram(snapshot: &Snapshot, series: Series, bounds: &[u64], unit: f64) -> Value {
    let distribution = Distribution::of([&snapshot.measured], &[series]);
    let upper = bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
    let classic = upper.zip(distribution.buckets(bounds)).scan(0, |cumulative, (upper_bound, count)| {
        *cumulative += count;
        Some((*cumulative, upper_bound))
    });
    Value::Histogram(Histogram {
        count: distribution.count,
        sum: distribution.sum as f64 / unit,
        buckets: classic.collect(),
        start: snapshot.start_time.into(),
        ..native(&distribution, unit)
    })
}

/// A histogram with only the occupied native buckets.
fn native(distribution: &Distribution, unit: f64) -> Histogram {
    let bucket = |highest: u64| ((highest as f64 / unit).log2() * f64::from(1 << SCHEMA)).ceil() as i32;
    let bins = distribution.values().filter(|(highest, _)| *highest > 0);
    let bins: Vec<(i32, u64)> = bins.map(|(highest, count)| (bucket(highest), count)).collect();
    let zero_count = distribution.count - bins.iter().map(|(_, count)| count).sum::<u64>();
    let mut native = Histogram { schema: SCHEMA, zero_threshold: ZERO_THRESHOLD, zero_count, ..Histogram::default() };
    let (mut next, mut before) = (0, 0);
    for bins in bins.chunk_by(|one, other| one.0 == other.0) {
        let (number, count) = (bins[0].0, bins.iter().map(|(_, count)| count).sum::<u64>() as i64);
        match native.spans.last_mut() {
            Some((_, length)) if number == next => *length += 1,
            _ => native.spans.push((number - next, 1)),
        }
        native.deltas.push(count - before);
        (next, before) = (number + 1, count);
    }
    native
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;
    use crate::window::{Histograms, Sample, Stage};
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let histograms = Histograms::default();
        for value in values {
            histograms.record(&Sample { service: Nanos::new(*value), ..Sample::default() });
        }
        Distribution::of([&histograms.bins()], &[Series::stage(0, Stage::Service)])
    }

    /// Number and count of each bucket, decoded from spans and deltas as a reader decodes them.
    fn decoded(buckets: &Histogram) -> Vec<(i32, u64)> {
        let (mut next, mut count, mut deltas, mut read) = (0, 0, buckets.deltas.iter(), Vec::new());
        for (gap, length) in &buckets.spans {
            next += gap;
            for _ in 0..*length {
                count += deltas.next().expect("a delta for each bucket");
                read.push((next, u64::try_from(count).expect("a count")));
                next += 1;
            }
        }
        assert_eq!(deltas.next(), None);
        read
    }

    proptest! {
        /// Does each bucket hold exactly the values between its bounds, in seconds? Are empty
        /// buckets left out?
        #[test]
        fn each_value_is_between_the_bounds_of_its_bucket(
            values in prop::collection::vec(prop_oneof![0_u64..100_000, 0_u64..2_000_000_000_000], 0..300),
        ) {
            let times = of(&values);
            let buckets = decoded(&native(&times, 1e9));
            prop_assert!(buckets.is_sorted_by(|one, next| one.0 < next.0) && buckets.iter().all(|(_, count)| *count > 0));
            let bound = |number: i32| 2_f64.powf(f64::from(number) / 32.0);
            let mut left: Vec<(u64, u64)> = times.values().collect();
            for (number, count) in buckets {
                let is_in = |(highest, _): &mut (u64, u64)| {
                    let seconds = *highest as f64 / 1e9;
                    seconds > bound(number - 1) && seconds <= bound(number)
                };
                let held: u64 = left.extract_if(.., is_in).map(|(_, count)| count).sum();
                prop_assert_eq!(held, count, "bucket {}", number);
            }
            prop_assert_eq!(left, []);
        }
    }

    /// Does a gap start a new span? Does zero have its own count? The values are thousandths.
    #[test]
    fn gaps_start_spans() {
        let times = of(&[]);
        assert_eq!((native(&times, 1e3).zero_count, decoded(&native(&times, 1e3))), (0, Vec::new()));
        let histograms = Histograms::default();
        let sample =
            |service, queue| Sample { service: Nanos::new(service), queue: Nanos::new(queue), ..Sample::default() };
        for sample in [sample(0, 0), sample(9, 0), sample(9, 0), sample(9, 0), sample(1, 1), sample(100, 102)] {
            histograms.record(&sample);
        }
        let slowdowns = Distribution::of([&histograms.bins()], &[Series::slowdown(0)]);
        // Slowdowns 0, 1 (three times), 2 and 2.02: buckets 0, 32 and 33.
        let Histogram { zero_count, spans, deltas, .. } = native(&slowdowns, 1e3);
        assert_eq!((zero_count, spans, deltas), (1, vec![(0, 1), (31, 2)], vec![3, -2, 0]));
    }
}
