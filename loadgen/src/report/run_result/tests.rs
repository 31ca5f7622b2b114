use super::*;
use crate::drive::receiver::{Replies, Reply};
use crate::drive::sender::Sent;
use crate::plan::test_plan;
use crate::report::slo::{Held, Judged};
use crate::report::validity::Validity;
use crate::report::validity::tests::sound;
use forebay::inside::wire::Served;
use forebay::metrics::Percentile;
use forebay::time::Nanos;

fn request(at_ms: u64, class: u8) -> Request {
    Request { at: Nanos::from_millis(at_ms), cost: Nanos::from_micros(10), flow: 0, class }
}

/// The figures of `schedule` with these slips and replies; the warm-up is `warmup`, the timeout
/// 100 ms.
fn figures(
    schedule: Vec<Request>,
    slips: Vec<Nanos>,
    last: Vec<Option<Reply>>,
    warmup: Nanos,
    dropped: u64,
) -> RunResult {
    let timeout = Some(Nanos::from_millis(100));
    let plan = Plan { warmup, timeout, workers: None, ..test_plan() };
    let (sent, replies) = (Sent { slips, ..Sent::default() }, Replies { last, ..Replies::default() });
    let exchange = Exchange { start: Nanos::from_secs(5), schedule, sent, replies, reply_price: None };
    RunResult::of(&plan, &exchange, Some(dropped))
}

/// Requests at 0, 1, 2, .. ms; each is replied to after the given number of milliseconds, if
/// any.
fn result(replies: &[Option<(u64, Status)>], warmup_ms: u64, kernel_dropped: u64) -> RunResult {
    let schedule: Vec<Request> = (0..replies.len()).map(|ms| request(ms as u64, (ms % 2) as u8)).collect();
    let reply = |(ms, reply): (u64, &Option<(u64, Status)>)| {
        reply.map(|(took, status)| Reply {
            at: Nanos::from_millis(5_000 + ms + took),
            status,
            code: "",
            served: Served::default(),
            late: false,
        })
    };
    let replies = (0..).zip(replies).map(reply).collect();
    let slips = vec![Nanos::from_micros(3); schedule.len()];
    figures(schedule, slips, replies, Nanos::from_millis(warmup_ms), kernel_dropped)
}

#[test]
fn every_reply_has_one_fate_and_the_unanswered_are_shared_out() {
    let mut replies: Vec<_> = Status::ALL.into_iter().map(|status| Some((1, status))).collect();
    replies.extend([Some((101, Status::Ok)), Some((101, Status::ShedRate)), None, None, None]);
    let fates = result(&replies, 0, 2).fates;
    let of = |ending| Status::ALL.into_iter().filter(|status| status.ending() == ending).count() as u64;
    let [answered, shed, refused, failed] = [Ending::Answered, Ending::Shed, Ending::Refused, Ending::Failed].map(of);
    assert!(answered == 1 && shed >= 4 && refused >= 1 && failed >= 2);
    let expected = Fates { answered, late: 2, shed, refused, failed, kernel_dropped: Some(2), lost: 1, unjudged: 0 };
    assert_eq!(fates, expected);
    assert_eq!(fates.sum(), replies.len() as u64);
    let capped = result(&replies, 0, 1_000).fates;
    assert_eq!((capped.kernel_dropped, capped.lost), (Some(3), 0));
}

// Is each request counted in the second in which it should have been sent, and only those
// answered in time answered?
#[test]
fn seconds_count_from_the_end_of_the_warm_up() {
    let answered = |took| Some((took, Status::Ok));
    let mut replies = vec![answered(1); 2_600];
    (replies[150], replies[1_200], replies[2_550]) = (None, Some((1, Status::ShedWaited)), answered(101));
    assert_eq!(result(&replies, 100, 0).by_second, [(1_000, 999), (1_000, 999), (500, 499)]);
}

#[test]
fn whatever_is_not_answered_is_infinite_in_latency_and_slowdown_only() {
    let replies = [Some((1, Status::Ok)), Some((1, Status::ShedRate)), Some((3, Status::Ok)), None];
    let result = result(&replies, 0, 0);
    assert_eq!(result.latency_us.all().p50, Some(3_000.0));
    assert_eq!(result.latency_us.all().p90, None);
    assert_eq!(result.slowdown.of("long").expect("a class").p50, None);
    assert_eq!(result.slowdown.of("short").expect("a class").max, Some(300.0));
    assert_eq!(result.latency_answered_us.all().max, Some(3_000.0));
    assert_eq!(result.latency_us.all().count, 2);
}

// Method: slips around the limit, of which one is of the warm-up.
#[test]
fn slips_are_told_and_those_above_the_limit_counted() {
    let schedule: Vec<Request> = (0..5).map(|ms| request(ms, 0)).collect();
    let [limit, over] = [SLIP_LIMIT, SLIP_LIMIT.plus(Nanos::new(1))];
    let slips = vec![over, limit, over, Nanos::from_secs(1), Nanos::from_micros(7)];
    let result = figures(schedule, slips, vec![None; 5], Nanos::from_millis(1), 0);
    assert_eq!(result.slips_over_limit, 2);
    let slip = result.slip_us;
    assert_eq!((slip.count, slip.p50, slip.max), (4, Some(10_000.0), Some(1e6)));
}

// On emulated cores, is latency the slip and the core's own time, and is what the host was late
// beside it told apart?
#[test]
fn an_emulated_core_is_charged_its_own_time() {
    let [slip, served, price] = [3, 20, 2].map(Nanos::from_millis);
    let reply = |at_ms| Reply {
        at: Nanos::from_millis(at_ms),
        status: Status::Ok,
        code: "",
        served: Served { service: served, ..Served::default() },
        late: false,
    };
    let mut exchange = Exchange {
        start: Nanos::from_secs(5),
        schedule: vec![request(10, 0), request(20, 1)],
        sent: Sent { slips: vec![slip; 2], ..Sent::default() },
        // Its wall clock says 190 ms of the first one, which is beyond the timeout of 100 ms.
        replies: Replies { last: vec![Some(reply(5_200)), None], ..Replies::default() },
        reply_price: None,
    };
    let timeout = Some(Nanos::from_millis(100));
    let plan = Plan { warmup: Nanos::ZERO, timeout, workers: None, ..test_plan() };
    let mut of = |price| {
        exchange.reply_price = price;
        let result = RunResult::of(&plan, &exchange, Some(0));
        let short = result.latency_us.of("short").expect("a class").max;
        (result.fates.answered, short, result.late_us.max)
    };
    assert_eq!(of(Some(price)), (1, Some(25_000.0), Some(168_000.0)));
    assert_eq!(of(None), (0, None, Some(3_000.0)), "a real core keeps the time of this host");
}

#[test]
fn a_reply_stamped_before_its_send_took_no_less_than_the_slip() {
    let stamped =
        Reply { at: Nanos::from_secs(4), status: Status::Ok, code: "", served: Served::default(), late: false };
    let result = figures(vec![request(10, 0)], vec![Nanos::from_micros(40)], vec![Some(stamped)], Nanos::ZERO, 0);
    assert_eq!(result.latency_us.all().max, Some(40.0));
}

/// When a request is due in ms, how many ms later it is sent, and how many ms after that its reply
/// comes.
type Asked = (u64, u64, Option<(u64, Status)>);

/// What became of requests that are due at each of `at_ms` and sent `slip_ms` later. A reply comes
/// `took_ms` after the send.
fn sent_late(requests: &[Asked]) -> RunResult {
    let schedule = requests.iter().map(|(at_ms, ..)| request(*at_ms, 0)).collect();
    let slips = requests.iter().map(|(_, slip_ms, _)| Nanos::from_millis(*slip_ms)).collect();
    let reply = |(at_ms, slip_ms, took): &Asked| {
        let (took_ms, status) = (*took)?;
        let at = Nanos::from_millis(5_000 + at_ms + slip_ms + took_ms);
        Some(Reply { at, status, code: "", served: Served::default(), late: false })
    };
    figures(schedule, slips, requests.iter().map(reply).collect(), Nanos::ZERO, 0)
}

// Is a request without an answer in time not judged where this host sent it late? Is it judged
// where the host has no part in it? The timeout is 100 ms.
#[test]
fn what_is_sent_too_late_is_not_judged() {
    let ok = |ms| Some((ms, Status::Ok));
    let in_burst = Fates { unjudged: 1, kernel_dropped: Some(0), ..Fates::default() };
    let of = |kind: fn(&mut Fates) -> &mut u64| {
        let mut fates = Fates { kernel_dropped: Some(0), ..Fates::default() };
        *kind(&mut fates) = 1;
        fates
    };
    for (slip_ms, took, fates) in [
        (0, ok(100), of(|fates| &mut fates.answered)),
        (90, ok(10), of(|fates| &mut fates.answered)),
        (0, ok(101), of(|fates| &mut fates.late)),
        (5, ok(101), of(|fates| &mut fates.late)),
        // Late only by our slip, which is below the limit of slips.
        (5, ok(96), in_burst),
        (150, ok(1), in_burst),
        (150, ok(900), in_burst),
        (11, None, in_burst),
        (10, None, of(|fates| &mut fates.lost)),
        (11, Some((1, Status::ShedQueueFull)), in_burst),
        (10, Some((1, Status::ShedQueueFull)), of(|fates| &mut fates.shed)),
        // No burst changes what a server does not serve.
        (11, Some((1, Status::Refused)), of(|fates| &mut fates.refused)),
        (11, Some((1, Status::Failed)), of(|fates| &mut fates.failed)),
    ] {
        assert_eq!(sent_late(&[(1_000, slip_ms, took)]).fates, fates, "{slip_ms} ms late: {took:?}");
    }
}

// Does a pause disturb what is sent on time behind its burst? For as long as the pause was, and
// nothing before it or later?
#[test]
fn a_burst_disturbs_what_is_sent_behind_it() {
    let paused = [(100, 0, None), (200, 50, None), (240, 10, None), (299, 0, None), (300, 0, None), (900, 0, None)];
    let fates = sent_late(&paused).fates;
    assert_eq!((fates.unjudged, fates.lost, fates.sum()), (3, 3, 6), "from 200 to 299 ms");
    let warm = figures(
        vec![request(0, 0), request(55, 0)],
        vec![Nanos::from_millis(50), Nanos::ZERO],
        vec![None; 2],
        Nanos::from_millis(50),
        0,
    );
    assert_eq!((warm.fates.unjudged, warm.fates.sum()), (1, 1), "a pause in the warm-up disturbs what follows");
}

// Does a generator that is stopped for 150 of each 180 ms leave an ideal server without blame? Is a
// percentile known only as far as it does not depend on what is not judged?
#[test]
fn a_generator_that_stands_still_blames_no_server() {
    let request = |at_ms: u64| {
        let phase = at_ms % 180;
        (at_ms, if phase < 30 { 0 } else { 180 - phase }, Some((1, Status::Ok)))
    };
    let result = sent_late(&(0..18_000).map(request).collect::<Vec<_>>());
    let Fates { answered, unjudged, .. } = result.fates;
    assert_eq!(answered + unjudged, 18_000, "{:?}", result.fates);
    assert!((4_500..5_500).contains(&unjudged), "of 180 ms, the first 50 of a pause: {unjudged}");
    let all = result.latency_us.all();
    assert_eq!((all.p50.is_some(), all.p99), (true, None));
    assert!(!all.supports(Percentile::P99) && !all.supports(Percentile::P99_9), "infinite by our own fault");
    let least = result.least_latencies.all();
    assert_eq!((least.count(), least.above(f64::MAX)), (18_000, 0.0));
    let held = |slo: &str, result: &RunResult| {
        Judged::of(&slo.parse().expect("an SLO"), result, &sound(), Validity::AtMost).verdict
    };
    assert_eq!([held("loss<1%", &result), held("p99<50ms", &result)], [Held::Undecided; 2]);
    assert_eq!(held("loss<40%", &result), Held::Holds, "though all that is not judged counts as lost");
    // A server that loses each fifth request is to blame for those that were sent in time.
    let lossy = |at_ms: u64| (at_ms, 0, (!at_ms.is_multiple_of(5)).then_some((1, Status::Ok)));
    let result = sent_late(&(0..18_000).map(lossy).collect::<Vec<_>>());
    assert_eq!((result.fates.lost, result.fates.unjudged), (3_600, 0));
    assert!(result.latency_us.all().supports(Percentile::P99) && result.latency_us.all().p99.is_none());
    assert!((result.least_latencies.all().above(f64::MAX) - 0.2).abs() < 1e-9);
    assert_eq!([held("loss<1%", &result), held("p99<50ms", &result)], [Held::Fails; 2]);
}
