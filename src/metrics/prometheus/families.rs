//! Families of metrics and their samples, one call each.

use prometheus_client::encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt::{self, Display};

/// Starts families of metrics. Names are without the suffix that the type implies (`_total`, `_info`).
pub(super) struct Families<'a>(pub(super) DescriptorEncoder<'a>);

impl Families<'_> {
    /// Starts a family, still without samples.
    pub(super) fn start<'s>(
        &'s mut self,
        name: &'s str,
        help: &str,
        metric_type: MetricType,
    ) -> Result<MetricEncoder<'s>, fmt::Error> {
        self.0.encode_descriptor(name, help, None, metric_type)
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
        self.family((name, help, MetricType::Gauge), label, samples, |metric, value| metric.encode_gauge(value))
    }

    fn family<V>(
        &mut self,
        (name, help, metric_type): (&str, &str, MetricType),
        label: &str,
        samples: impl IntoIterator<Item = (impl Display, V)>,
        write: fn(&mut MetricEncoder<'_>, &V) -> fmt::Result,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut family = self.start(name, help, metric_type)?;
        samples.try_for_each(|(value, sample)| match label {
            "" => write(&mut family, &sample),
            _ => write(&mut family.encode_family(&[(label, value.to_string())])?, &sample),
        })
    }
}

/// Writes one sample of a counter.
pub(super) fn counter(metric: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    metric.encode_counter(value, None::<&Exemplar<NoLabelSet, f64>>)
}
