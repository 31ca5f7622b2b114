//! Whole families of metrics, one call each. Names are without the suffix that the type implies (`_total`, `_info`).

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt::{self, Display};

/// Writes a family of counters: of each sample the value of `label`, and the count. Without samples there is no family;
/// without a label, `""`, there is one sample at most.
pub(super) fn counters<V: EncodeCounterValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (impl Display, V)>,
) -> fmt::Result {
    family(to, (name, help, MetricType::Counter), label, samples, counter)
}

/// As [`counters`], for gauges.
pub(super) fn gauges<V: EncodeGaugeValue>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    label: &str,
    samples: impl IntoIterator<Item = (impl Display, V)>,
) -> fmt::Result {
    family(to, (name, help, MetricType::Gauge), label, samples, |metric, value| metric.encode_gauge(value))
}

fn family<V>(
    to: &mut DescriptorEncoder<'_>,
    (name, help, metric_type): (&str, &str, MetricType),
    label: &str,
    samples: impl IntoIterator<Item = (impl Display, V)>,
    write: fn(&mut MetricEncoder<'_>, &V) -> fmt::Result,
) -> fmt::Result {
    let mut samples = samples.into_iter().peekable();
    if samples.peek().is_none() {
        return Ok(());
    }
    let mut family = to.encode_descriptor(name, help, None, metric_type)?;
    samples.try_for_each(|(value, sample)| match label {
        "" => write(&mut family, &sample),
        _ => write(&mut family.encode_family(&[(label, value.to_string())])?, &sample),
    })
}

/// Writes one sample of a counter.
pub(super) fn counter(metric: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    metric.encode_counter(value, None::<&Exemplar<NoLabelSet, f64>>)
}
