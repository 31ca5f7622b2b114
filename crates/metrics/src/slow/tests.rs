//! Does `/slow` report the last minute, and why a request waits? Method: a recorder in simulated
//! time.

use super::*;
use crate::fate::CLASS_NAMES;
use crate::worker_metrics::Recorder;

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
    slow.report(metrics, &[], &[], &[], &CLASS_NAMES, at)
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
        (Some(Wait::Flow(7)), "flow", "waiting for shard 7"),
        (None, "no_checkpoint", "waiting"),
    ] {
        let shard = matches!(wait, Some(Wait::Flow(_))).then_some(7);
        let unended = Unended { about, shard, wait, ..Unended::default() };
        let body = slow.report(&metrics, &[unended], &[], &[], &CLASS_NAMES, MS(20));
        let told = &body["waiting"][0];
        assert_eq!((&told["culprit"]["cause"], &told["place"]), (&cause.into(), &place.into()), "{told}");
        assert_eq!((&told["culprit"]["shard"], &told["shard"]), (&json!(shard), &json!(shard)), "{told}");
        assert_eq!(told["culprit"]["place"], Value::Null, "what holds the shard is not in the list: {told}");
    }
    let of = |sockets: &[u64]| slow.report(&metrics, &[], sockets, &[], &CLASS_NAMES, MS(20))["sockets"].clone();
    assert_eq!(of(&[0]), json!([]), "an empty socket is not listed");
    let socket = &of(&[7])[0];
    assert_eq!((&socket["worker"], &socket["waiting_bytes"]), (&0.into(), &7.into()), "{socket}");
    assert_eq!(
        (&socket["culprit"]["cause"], &socket["culprit"]["held_us"]),
        (&"no_checkpoint".into(), &100.0.into()),
        "{socket}"
    );
}

// Is a request that waits for a helper explained by the work that helpers do, and not by its
// sleeping worker? Is a request whose work is on a helper no delay while the helper has a CPU?
#[test]
fn work_aside_is_told_apart_from_sleep() {
    let (metrics, mut slow) = (WorkerMetrics::new(1), Slow::default());
    let mut recorder = metrics.recorder(0);
    let about = |count, class| About { id: number(0, count), class, came_at: MS(15) };
    recorder.flight.begin(about(1, 1), MS(15));
    recorder.flight.end(false, MS(16));
    recorder.flight.rest();
    look(&mut slow, &metrics, MS(17));
    let wait = Some(Wait::Aside(0));
    let working = Unended { about: about(1, 1), wait, on_helper: MS(900), helper_cpu: MS(880), ..Unended::default() };
    let starved = Unended { about: about(2, 1), on_helper: MS(880), helper_cpu: MS(80), ..working };
    let waiting = Unended { about: about(3, 0), wait, for_helper: MS(800), ..Unended::default() };
    let report =
        |unended: &[Unended]| slow.report(&metrics, unended, &[], &[Some(MS(900)), None], &CLASS_NAMES, MS(920));
    let body = report(&[working, starved, waiting]);
    assert_eq!(body["helpers"], json!([{ "helper": 0, "running_us": 900e3 }, { "helper": 1, "running_us": null }]));
    let told = body["waiting"].as_array().expect("a list");
    assert_eq!([0, 1, 2].map(|n| &told[n]["place"]), ["on a helper", "on a helper", "waiting for a helper"]);
    assert_eq!(told[0]["culprit"], Value::Null, "it has its CPU");
    let starves = "its work aside was on a helper and not on a CPU for 800000 us: it waited, or workers had the CPUs";
    assert_eq!((&told[1]["culprit"]["cause"], &told[1]["culprit"]["text"]), (&json!("aside"), &json!(starves)));
    let culprit = &told[2]["culprit"];
    let text = format!("no helper was free for 800000 us: helpers did work of request {} (class 1)", number(0, 1));
    assert_eq!((&culprit["cause"], &culprit["class"], &culprit["text"]), (&json!("helper"), &json!(1), &json!(text)));
    let alone = report(&[waiting])["waiting"][0]["culprit"]["text"].clone();
    assert_eq!(alone, "no helper was free for 800000 us: helpers did other work", "that of a shard or a task");
}

// Does a request that waits for its shard name the shard, the request that holds it, and what that
// one waits for? Does work aside name the shard that it holds up?
#[test]
fn what_holds_a_shard_is_told() {
    let (metrics, mut slow) = (WorkerMetrics::new(1), Slow::default());
    let mut recorder = metrics.recorder(0);
    recorder.flight.begin(About { id: number(0, 3), class: 1, came_at: MS(15) }, MS(15));
    look(&mut slow, &metrics, MS(17));
    let in_shard = |count, class, shard, wait| {
        let about = About { id: number(0, count), class, came_at: MS(15) };
        Unended { about, shard: Some(shard), wait, ..Unended::default() }
    };
    let (flow, aside) = (|shard| Some(Wait::Flow(shard)), Some(Wait::Aside(0)));
    let body = slow.report(
        &metrics,
        &[
            in_shard(5, 0, 7, flow(7)),
            in_shard(6, 0, 8, flow(8)),
            in_shard(7, 0, 9, flow(9)),
            in_shard(8, 0, 9, flow(9)),
            Unended { on_helper: MS(900), helper_cpu: MS(900), ..in_shard(1, 1, 7, aside) },
            Unended { for_helper: MS(800), ..in_shard(2, 1, 8, aside) },
            in_shard(3, 1, 9, None),
        ],
        &[],
        &[],
        &CLASS_NAMES,
        MS(920),
    );
    let told = body["waiting"].as_array().expect("a list");
    let places = ["waiting for shard 7", "waiting for shard 8", "waiting for shard 9", "waiting for shard 9"];
    let aside = ["on a helper, with shard 7", "waiting for a helper, with shard 8", "running on worker 0"];
    assert_eq!(told.iter().map(|entry| &entry["place"]).collect::<Vec<_>>(), [&places[..], &aside].concat());
    for (entry, shard, holder, place) in [
        (0, 7, 1, "on a helper"),
        (1, 8, 2, "waiting for a helper"),
        (2, 9, 3, "running on worker 0"),
        (3, 9, 3, "running on worker 0"),
    ] {
        let (culprit, id) = (&told[entry]["culprit"], number(0, holder));
        let text =
            format!("its shard {shard} was busy for 905000 us, at last with request {id} (class 1), which is {place}");
        assert_eq!((&culprit["request"], &culprit["class"], &culprit["text"]), (&json!(id), &json!(1), &json!(text)));
        assert_eq!((&culprit["shard"], &culprit["place"]), (&json!(shard), &json!(place)));
    }
    let shards: Vec<_> = told.iter().map(|entry| entry["shard"].as_u64()).collect();
    assert_eq!(shards, [7, 8, 9, 9, 7, 8, 9].map(Some));
}

// Do delays by helpers count among the delays of their interval, with the slowest one, once?
#[test]
fn an_interval_keeps_who_was_to_blame() {
    let (metrics, mut slow) = (WorkerMetrics::new(1), Slow::default());
    let mut recorder = metrics.recorder(0);
    for (count, for_helper) in [(1, 40), (2, 90), (3, 60)] {
        let about = About { id: number(0, count), class: 0, came_at: MS(100) };
        let late = Delayed { about, received_at: MS(100), for_helper: MS(for_helper), ..Delayed::default() };
        recorder.flight.delayed(&Delayed { ended_at: MS(100 + for_helper), ..late });
    }
    delayed(&mut recorder, 9, MS(200));
    look(&mut slow, &metrics, MS(250));
    let told = slow.interval();
    let [helper, other] = &told.as_array().expect("a list")[..] else { panic!("two pairs") };
    assert_eq!(
        (&helper["cause"], &helper["requests"], &helper["blocked_us"]),
        (&json!("helper"), &json!(3), &json!(190e3))
    );
    assert_eq!((&helper["latency_us"], &helper["by_class"]), (&json!(90e3), &Value::Null));
    assert_eq!(helper["text"], "no helper was free for 90000 us: helpers did other work");
    assert_eq!(
        (&other["cause"], &other["by_class"], &other["latency_us"]),
        (&json!("no_checkpoint"), &json!(1), &json!(5e3))
    );
    assert_eq!(slow.interval(), json!([]), "it was told");
    assert_eq!(
        look(&mut slow, &metrics, MS(251))["blocked"].as_array().map(Vec::len),
        Some(2),
        "the last minute stays"
    );
}
