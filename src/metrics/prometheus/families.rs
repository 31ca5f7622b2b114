//! Families of metrics and their samples, one call each.

use crate::metrics::window::Distribution;
use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt::{self, Display};

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

    /// Writes a whole family of counters: of each sample the value of `label`, and the count. Without samples there is no
    /// family; without a label, `""`, there is one sample at most.
    pub(super) fn counters<V: EncodeCounterValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (impl Display, V)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Counter), label, samples, counter)
    }

    /// As [`Families::counters`], for gauges.
    pub(super) fn gauges<V: EncodeGaugeValue>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        samples: impl IntoIterator<Item = (impl Display, V)>,
    ) -> fmt::Result {
        self.family((name, help, MetricType::Gauge), label, samples, gauge)
    }

    fn family<V>(
        &mut self,
        (name, help, metric_type): (&str, &str, MetricType),
        label: &str,
        samples: impl IntoIterator<Item = (impl Display, V)>,
        write: fn(&mut MetricEncoder<'_>, &[(&str, &str)], &V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.start(name, help, metric_type)?;
        samples.try_for_each(|(value, sample)| {
            let labels = [(label, &*value.to_string())];
            write(&mut family, if label.is_empty() { &[] } else { &labels }, &sample)
        })
    }
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
