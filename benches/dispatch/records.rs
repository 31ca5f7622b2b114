//! How much time do the records of a request take: its slice in the flight recorder, its counters
//! and its histograms?
//!
//! Rounds with and without records alternate, over the same requests. Criterion gets the difference
//! of each pair. Each request gets all records of an ordinary request, in the engine's order.
//! Caches are warm.

use super::metrics::{About, Recorder, Sample, WorkerMetrics, number};
use super::time::{Nanos, clock};
use criterion::Criterion;
use std::hint::black_box;
use std::time::Duration;

/// Requests of a round. A round is short compared with the time between interruptions by the host,
/// and long compared with a reading of the clock.
const ROUND: u64 = 4_096;

/// Times of the `id`th request. They spread over some decades, as in a server, so that requests use
/// different bins.
fn sample(id: u64) -> Sample {
    let spread = id.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let time = |bits: u32| Nanos::new(200 + (spread & ((1 << bits) - 1)));
    let [kernel, queue, service, send] = [12, 14, 10, 11].map(time);
    Sample { class: (id & 1) as u8, kernel, queue, service, aside: Nanos::ZERO, send, late: None }
}

/// Runs one round; returns its time. If there is a recorder, it records the requests.
fn round(first: u64, mut recorder: Option<&mut Recorder<'_>>) -> Nanos {
    let start = clock::now();
    for id in first..first + ROUND {
        let sample = black_box(sample(id));
        let now = Nanos::new(id << 12);
        let about = black_box(About { id: number(0, id), class: sample.class, came_at: now.minus(sample.kernel) });
        if let Some(recorder) = recorder.as_deref_mut() {
            recorder.received(1);
            recorder.begin_slice(now);
            recorder.flight.begin(about, now);
            recorder.end_slice(sample.service);
            recorder.flight.end(false, now.plus(sample.service));
            recorder.answered(&sample);
            recorder.turned();
        }
    }
    clock::now().minus(start)
}

/// The time that records add to `count` requests, rounded up to whole rounds.
fn added(recorder: &mut Recorder<'_>, next: &mut u64, count: u64) -> Duration {
    let rounds = count.div_ceil(ROUND);
    let (mut with, mut without) = (Nanos::ZERO, Nanos::ZERO);
    for _ in 0..rounds {
        without = without.plus(round(*next, None));
        with = with.plus(round(*next, Some(recorder)));
        *next += ROUND;
    }
    let added = with.minus(without).get() as f64 / (rounds * ROUND) as f64;
    Duration::from_nanos((added * count as f64) as u64)
}

pub(super) fn bench(criterion: &mut Criterion) {
    let metrics = WorkerMetrics::new(1);
    let (mut recorder, mut next) = (metrics.recorder(0), 1);
    let mut group = criterion.benchmark_group("records");
    group.bench_function("a request's", |bencher| {
        bencher.iter_custom(|count| added(&mut recorder, &mut next, count));
    });
    group.finish();
}
