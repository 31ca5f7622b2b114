//! What was asked of a server lately: how many requests, and what CPU time those of each class take. `forebay plan --from`
//! plans for it.

use super::{Distribution, Series, Window};
use crate::metrics::Stage;
use crate::metrics::counters::Counts;
use crate::metrics::snapshot::ClassNames;
use crate::time::Nanos;

/// Demand over the last minute, or since the start where that is shorter.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Demand {
    /// The time that is covered.
    pub seconds: f64,
    /// Well-formed requests that came in it, answered or not, dropped by the kernel or not.
    pub asked: u64,
    /// Those of them that the kernel dropped; `None` (`null`) where that is not known: then they are not among them.
    pub kernel_dropped: Option<u64>,
    /// By name, each class with a request.
    #[cfg_attr(feature = "admin", serde(serialize_with = "crate::metrics::latency::as_object"))]
    pub classes: Vec<(&'static str, ClassDemand)>,
}

/// Demand of one class.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "admin", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClassDemand {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were received and not answered: shed, expired, failed.
    pub unanswered: u64,
    /// The exact CPU time that the answered ones took in handlers, in microseconds, all together.
    pub cpu_us: f64,
    /// CPU times of answered requests in microseconds, to 1 %, and how many took each.
    pub bins_us: Vec<(f64, u64)>,
}

impl Demand {
    /// The demand in `window` up to `now`, which was the last reading.
    pub(crate) fn of(window: &Window, now: &Counts, names: ClassNames) -> Demand {
        let oldest = window.oldest(now.at);
        let Some(before) = window.begin(oldest) else { return Demand::default() };
        let classes = names.0.into_iter().enumerate().filter_map(|(class, name)| {
            let of = |series: Series| Distribution::of(window.of(oldest..), &[series]);
            let (service, unanswered) = (of(Series::stage(class, Stage::Service)), of(Series::unanswered(class)).count);
            let (answered, cpu_us) = (service.count, Nanos::new(service.sum).as_micros_f64());
            (answered + unanswered > 0)
                .then(|| (name, ClassDemand { answered, unanswered, cpu_us, bins_us: bins_us(&service) }))
        });
        let kernel_dropped =
            now.kernel_dropped.zip(before.kernel_dropped).map(|(now, before)| now.saturating_sub(before));
        Demand {
            seconds: now.at.minus(before.at).as_secs_f64(),
            asked: now.asked().saturating_sub(before.asked()) + kernel_dropped.unwrap_or(0),
            kernel_dropped,
            classes: classes.collect(),
        }
    }
}

/// Bins for each doubling: 1 % wide.
const PER_DOUBLING: f64 = 64.0;

/// The bins of `distribution`, merged to a width of 1 %: some hundred of them, each with the mean of its values.
fn bins_us(distribution: &Distribution) -> Vec<(f64, u64)> {
    let bins: Vec<(u64, u64)> = distribution.values().collect();
    let place = |time: u64| (time.max(1) as f64).log2() * PER_DOUBLING;
    let merged = bins.chunk_by(|one, next| place(one.0).floor() == place(next.0).floor()).map(|near| {
        let count: u64 = near.iter().map(|(_, count)| count).sum();
        let sum: f64 = near.iter().map(|(time, count)| *time as f64 * *count as f64).sum();
        (sum / count as f64 / 1e3, count)
    });
    merged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fate::Fate;
    use crate::metrics::window::Bins;
    use crate::metrics::{Collector, Counter, Gauges, Sample, WorkerMetrics};

    // Is what was asked there: answered, shed and dropped, the classes apart, with the exact sum of CPU times?
    #[test]
    fn what_was_asked_counts_and_not_what_was_answered() {
        let metrics = WorkerMetrics::new(1);
        let mut collector = Collector::new(&metrics);
        let mut recorder = metrics.recorder(0);
        recorder.received(1_000);
        for number in 0..600_u64 {
            let service = Nanos::from_micros(100 + number % 2 * 3);
            recorder.answered(&Sample { class: u8::from(number % 6 == 0), service, ..Sample::default() });
        }
        for _ in 0..300 {
            recorder.unanswered(1, Nanos::ZERO);
            recorder.ended(Fate::ShedQueueFull);
        }
        (0..60).for_each(|_| recorder.count(Counter::Malformed(crate::fate::Malformed::Magic)));
        (0..40).for_each(|_| recorder.ended(Fate::Refused));
        collector.kernel_dropped = Some(150);
        collector.collect();
        let demand = collector.snapshot(Gauges::default()).demand;
        assert_eq!((demand.asked, demand.kernel_dropped), (1_050, Some(150)));
        assert!(demand.seconds > 0.0 && demand.seconds < 30.0, "{demand:?}");
        let [("short", short), ("long", long)] = &demand.classes[..] else { panic!("{demand:?}") };
        assert_eq!((short.answered, short.unanswered, long.answered, long.unanswered), (500, 0, 100, 300));
        assert_eq!((short.cpu_us, long.cpu_us), (200.0 * 100.0 + 300.0 * 103.0, 100.0 * 100.0));
        let [(near, 200), (far, 300)] = short.bins_us[..] else { panic!("{short:?}") };
        assert!((near / 100.0 - 1.0).abs() < 0.002 && (far / 103.0 - 1.0).abs() < 0.002, "{short:?}");
    }

    // Does the time end where the distributions do, however long the server runs, and begin with it?
    #[test]
    fn counters_cover_the_time_of_the_distributions() {
        let reading = |second: u64| Counts { at: Nanos::from_secs(second), received: second * 10, ..Counts::default() };
        let mut window = Window::new(6, Nanos::from_secs(10));
        let demand = |window: &Window, second| Demand::of(window, &reading(second), ClassNames::default());
        assert_eq!(demand(&window, 3), Demand::default());
        for second in 4..=200 {
            window.add(&reading(second - 1), Nanos::from_secs(second), &Bins::default());
            let demand = demand(&window, second);
            // A slot begins with what has gathered since the last look at the one before.
            let begin = if second < 60 { 3 } else { (second / 10 - 5) * 10 - 1 };
            assert_eq!((demand.seconds, demand.asked), ((second - begin) as f64, 10 * (second - begin)), "{second}");
        }
    }
}
