//! Families of metrics and their samples, one call each.

use crate::metrics::counters::Family;
use crate::metrics::window::Distribution;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt;

/// Starts families of metrics. Names are without the suffix that the type implies (`_total`, `_info`).
pub(super) struct Families<'a>(DescriptorEncoder<'a>);

impl<'a> Families<'a> {
    /// Families written through `encoder`.
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Families<'a> {
        Families(encoder)
    }

    /// Starts a family, still without samples.
    pub(super) fn start<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        metric_type: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, metric_type)
    }

    /// Writes a whole family of type info.
    pub(super) fn info(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> fmt::Result {
        self.start(name, help, MetricType::Info)?.encode_info(&labels)
    }
}

/// Writes whole families of counters.
pub(super) fn counters(families: &mut Families<'_>, counted: Vec<Family<'_>>) -> fmt::Result {
    for Family { name, help, label, counts } in counted {
        let mut family = families.start(name, help, MetricType::Counter)?;
        match label {
            None => counter(&mut family, &[], &counts[0])?,
            Some((label, values)) => {
                for (value, count) in values.iter().zip(counts) {
                    counter(&mut family, &[(label, value)], count)?;
                }
            }
        }
    }
    Ok(())
}

/// Writes one sample of a counter.
pub(super) fn counter(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str)],
    value: &impl EncodeCounterValue,
) -> fmt::Result {
    let no_exemplar = None::<&Exemplar<NoLabelSet, f64>>;
    match labels {
        [] => family.encode_counter(value, no_exemplar),
        _ => family.encode_family(&labels)?.encode_counter(value, no_exemplar),
    }
}

/// Writes one sample of a gauge.
pub(super) fn gauge(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str)],
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    match labels {
        [] => family.encode_gauge(value),
        _ => family.encode_family(&labels)?.encode_gauge(value),
    }
}

/// Writes one histogram, its bounds and sum divided by `unit`. Every bin belongs to exactly one bucket, so that the
/// last bucket equals the count.
pub(super) fn histogram(
    family: &mut MetricEncoder<'_>,
    labels: &[(&str, &str)],
    distribution: &Distribution,
    bounds: &[u64],
    unit: f64,
) -> fmt::Result {
    let upper = bounds.iter().map(|bound| *bound as f64 / unit).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = upper.zip(distribution.buckets(bounds)).collect();
    let mut metric = family.encode_family(&labels)?;
    metric.encode_histogram::<NoLabelSet>(distribution.sum() as f64 / unit, distribution.count(), &buckets, None)
}
