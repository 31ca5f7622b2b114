//! Does `/slow` report the last minute, and why a request waits? Method: a recorder in simulated
//! time.

use super::*;
use crate::fate::CLASS_NAMES;
use crate::metrics::worker_metrics::Recorder;

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const WAITED: Nanos = Nanos::from_millis(5);

/// Records a request of class 0 that ends at `at`, after it waited for [`WAITED`] while a request
/// of class 1 ran.
fn delayed(recorder: &mut Recorder<'_>, count: u64, at: Nanos) {
    let came_at = at.minus(WAITED);
    recorder.flight.begin(About { id: number(0, 900), class: 1, came_at }, came_at);
    recorder.flight.end(false, at);
    recorder.flight.rest();
    let about = About { id: number(0, count), class: 0, came_at };
    recorder.flight.delayed(&Delayed { about, received_at: at, ended_at: at, ..Delayed::default() });
}

fn look(slow: &mut Slow, metrics: &WorkerMetrics, at: Nanos) -> Value {
    // The test's readings are never late.
    let tick =
        Tick { at, every: Nanos::from_secs(3_600), off_cpu: vec![Nanos::ZERO], pools: vec![0], ..Tick::default() };
    slow.look(metrics, tick);
    slow.report(metrics, &[], &[], &CLASS_NAMES, at)
}

// Does a request disappear after a minute? Are delays with the same culprit summed, for the minute
// and since the start?
#[test]
fn the_last_minute_is_told_and_times_add_up() {
    let (metrics, mut slow) = (WorkerMetrics::new(1), Slow::default());
    let mut recorder = metrics.recorder(0);
    for (count, seconds) in [(1, 10), (2, 11), (3, 69)] {
        let at = Nanos::from_secs(seconds);
        delayed(&mut recorder, count, at);
        look(&mut slow, &metrics, at.plus(MS(100)));
    }
    let of = |body: &Value| {
        let slowest = body["slowest"].as_array().expect("a list");
        let mut numbers: Vec<_> = slowest.iter().map(|late| late["request"].as_u64().expect("a number")).collect();
        numbers.sort_unstable();
        let [blocked] = &body["blocked"].as_array().expect("a list")[..] else { panic!("{body}") };
        assert_eq!((&blocked["by_class"], &blocked["cause"]), (&1.into(), &"no_checkpoint".into()));
        (numbers, blocked["requests"].as_u64(), blocked["blocked_us"].as_f64())
    };
    for (at, left) in [(MS(69_999), 1..4), (MS(70_999), 2..4), (MS(71_000), 3..4)] {
        let (numbers, requests, us) = of(&look(&mut slow, &metrics, at));
        let count = left.end - left.start;
        assert_eq!(numbers, left.map(|count| number(0, count)).collect::<Vec<_>>(), "{at}");
        assert_eq!((requests, us), (Some(count), Some(5_000.0 * count as f64)), "{at}");
    }
    assert_eq!(slow.blocked.into_values().collect::<Vec<_>>(), [WAITED.times(3)]);
}

// Is a wait for a permit told apart from a wait for a flow?
#[test]
fn what_is_waited_for_is_told_meanwhile() {
    let (metrics, mut slow) = (WorkerMetrics::new(1), Slow::default());
    let mut recorder = metrics.recorder(0);
    delayed(&mut recorder, 1, MS(20));
    look(&mut slow, &metrics, MS(21));
    let about = About { id: number(0, 5), class: 0, came_at: MS(15) };
    for (wait, cause, place) in [
        (Some(Wait::Permit), "permit", "waiting for a permit"),
        (Some(Wait::Flow(7)), "flow", "set aside"),
        (None, "no_checkpoint", "waiting"),
    ] {
        let body = slow.report(&metrics, &[(about, wait)], &[], &CLASS_NAMES, MS(20));
        let told = &body["waiting"][0];
        assert_eq!((&told["culprit"]["cause"], &told["place"]), (&cause.into(), &place.into()), "{told}");
        let shard = if cause == "flow" { json!(7) } else { Value::Null };
        assert_eq!(told["culprit"]["shard"], shard, "{told}");
    }
    let of = |sockets: &[u64]| slow.report(&metrics, &[], sockets, &CLASS_NAMES, MS(20))["sockets"].clone();
    assert_eq!(of(&[0]), json!([]), "an empty socket is not listed");
    let socket = &of(&[7])[0];
    assert_eq!((&socket["worker"], &socket["waiting_bytes"]), (&0.into(), &7.into()), "{socket}");
    assert_eq!(
        (&socket["culprit"]["cause"], &socket["culprit"]["held_us"]),
        (&"no_checkpoint".into(), &100.0.into()),
        "{socket}"
    );
}
