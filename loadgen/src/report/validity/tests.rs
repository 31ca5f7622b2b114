use super::*;
use crate::lab::stats::{Block, Memory};
use crate::report::by_class::{ByClass, Values, block_of};
use forebay::metrics::ALL_CLASSES;
use std::collections::BTreeMap;

fn bounded(values: Vec<f64>) -> Block {
    let mut stream = Values::default();
    values.into_iter().for_each(|value| stream.add(value));
    stream.into_block(Memory::UNKNOWN)
}

/// A run of requests that all take this long, each sent this late.
pub(in crate::report) fn result(latency_us: f64, slip_us: f64, slips_over_limit: u64) -> RunResult {
    let latency = ByClass(vec![(ALL_CLASSES, bounded(vec![latency_us; 7_000]))]);
    RunResult {
        codes: BTreeMap::new(),
        fates: Fates { answered: 3_000, ..Fates::default() },
        latency_us: latency.clone(),
        latency_answered_us: latency.clone(),
        slowdown: latency,
        slip_us: block_of(vec![slip_us; 3_000]),
        late_us: block_of(vec![slip_us; 3_000]),
        shortest_us: ByClass(vec![(ALL_CLASSES, 1.0)]),
        slips_over_limit,
        slowdowns: ByClass(vec![]),
        latencies: ByClass(vec![]),
        least_slowdowns: ByClass(vec![]),
        least_latencies: ByClass(vec![]),
        memory: Memory::UNKNOWN,
        parts_us: BTreeMap::new(),
        histograms: ByClass(Vec::new()),
        by_second: Vec::new(),
    }
}

pub(in crate::report) fn sound() -> Facts {
    Facts {
        percentile: Percentile::P99_9,
        knows_alone: true,
        pacer: Pacer::RealTime,
        own_socket_drops: Ok(0),
        attempted: 4_000,
        attempts: AttemptCounts {
            sent: 4_000,
            after_shed: 400,
            after_timeout: 600,
            late: 1,
            ..AttemptCounts::default()
        },
        send_errors: errors(4),
        send_buffer_errors: Ok(0),
        heard: 4_000,
        foreign: 40,
        elsewhere: None,
        doubtful: 0,
        protocol: "bench",
        overshoot_share: Some(Ok(0.02)),
        run_queue_share: Some(0.02),
        endpoint_error: None,
        restarted: None,
        reconciled: Some(reconciled(4_000)),
        interrupted: false,
        counted: Nanos::from_secs(3),
    }
}

fn errors(count: u64) -> BTreeMap<String, u64> {
    BTreeMap::from([("no room".to_owned(), count - 1), ("no way".to_owned(), 1)])
}

/// Counts of a server that received `server_received` of 4,000 datagrams and dropped none.
fn reconciled(server_received: u64) -> Reconciled {
    let unaccounted = 4_000 - server_received.cast_signed();
    Reconciled { client_sent: 4_000, server_received, server_kernel_dropped: Some(0), unaccounted }
}

#[test]
fn a_sound_run_is_valid_up_to_each_limit() {
    assert_eq!(judge(&result(100.0, 5.0, 3), &sound()), []);
    assert_eq!(judge(&result(60_000.0, 3_000.0, 0), &sound()), []);
    let alone = Facts { reconciled: None, overshoot_share: None, run_queue_share: None, ..sound() };
    assert_eq!(judge(&result(100.0, 5.0, 3), &alone), [], "no server was asked");
}

type Spoil<'a> = &'a dyn Fn(&mut Facts);

/// There is one reason, which contains `expected` and makes the run INVALID or AT MOST.
fn assert_said(result: &RunResult, facts: &Facts, validity: Validity, expected: &str) {
    let objections = judge(result, facts);
    let reasons: Vec<String> = objections.iter().map(Objection::to_string).collect();
    assert!(reasons.len() == 1 && reasons[0].contains(expected), "{expected}: {reasons:?}");
    assert_eq!(Validity::of(&objections), validity, "{reasons:?}");
}

#[test]
fn each_defect_is_a_reason_of_its_own() {
    let slip = "p99.9 of the slip is 5.10 us, above 5 % of p99.9 of the latency, which is 100";
    for (result, pacer, expected) in [
        (result(100.0, 5.1, 0), Pacer::RealTime, slip),
        (result(100.0, 5.1, 0), Pacer::Ordinary, "cap_sys_nice"),
        (result(60_000.0, 3_001.0, 0), Pacer::RealTime, "which is 60.0 ms"),
        (result(100.0, 5.0, 4), Pacer::RealTime, "4 of 3000 sends"),
    ] {
        assert_said(&result, &Facts { pacer, ..sound() }, Validity::AtMost, expected);
    }
    let unknown = || "no /proc".to_owned();
    let raising: [(Spoil<'_>, &str); 3] = [
        (&|facts| facts.run_queue_share = Some(0.021), "waited for a CPU for 2.1 % of the run"),
        (&|facts| facts.overshoot_share = Some(Ok(0.021)), "overslept by 2.1 %"),
        (&|facts| facts.overshoot_share = Some(Err(unknown())), "overslept is not known: no /proc"),
    ];
    let spoiling: [(Spoil<'_>, &str); 15] = [
        (&|facts| facts.attempts.late = 2, "2 of 1000 were more than 10.0 ms late"),
        (
            &|facts| facts.percentile = Percentile::P99_95,
            "p99.95 of the latency is not known within a factor of 2: its",
        ),
        (&|facts| facts.own_socket_drops = Ok(7), "dropped 7 replies"),
        (&|facts| facts.own_socket_drops = Err(unknown()), "own sockets are not known: no /proc"),
        (&|facts| facts.send_errors = errors(5), "refused 5 of 4000 requests, above 0.1 % (no room; no way)"),
        (&|facts| facts.send_buffer_errors = Ok(1), "did not send 1 datagrams"),
        (&|facts| facts.send_buffer_errors = Ok(1), "those of another process"),
        (&|facts| facts.send_buffer_errors = Err(unknown()), "what it took is not known: no /proc"),
        (&|facts| facts.doubtful = 1, "1 of 4000 replies came while their flow waited for several that they fit"),
        (&|facts| facts.foreign = 41, "41 of 4000 datagrams that came are no reply"),
        (&|facts| facts.endpoint_error = Some("refused".into()), "did not answer: refused"),
        (&|facts| facts.restarted = Some("it had 5".into()), "was restarted in the course of the run: it"),
        (&|facts| facts.reconciled = Some(reconciled(3_999)), "1 datagrams are unaccounted for"),
        (&|facts| facts.reconciled = Some(reconciled(4_001)), "1 datagrams more than"),
        (&|facts| facts.interrupted = true, "interrupted"),
    ];
    let raising = raising.into_iter().map(|defect| (Validity::AtMost, defect));
    for (validity, (spoil, expected)) in raising.chain(spoiling.map(|defect| (Validity::Invalid, defect))) {
        let mut facts = sound();
        spoil(&mut facts);
        assert_said(&result(100.0, 5.0, 0), &facts, validity, expected);
    }
}

// Are doubtful replies few beside those above the percentile in question, and never above 1 %?
#[test]
fn doubtful_replies_are_judged_at_the_percentile_that_is_claimed() {
    for (percentile, most) in
        [(Percentile::P50, 4_000), (Percentile::P90, 4_000), (Percentile::P99, 400), (Percentile::P99_9, 40)]
    {
        let heard = 400_000;
        let of = |doubtful| judge(&result(100.0, 5.0, 0), &Facts { percentile, heard, doubtful, ..sound() }).len();
        assert_eq!([of(most), of(most + 1)], [0, 1], "{percentile}");
    }
}

// A generator that is frozen for 7 ms in each second is late with 0.7 % of its requests. That is
// nothing at p99, and most of the latency at p99.9.
#[test]
fn slip_is_judged_at_the_percentile_that_is_claimed() {
    let spread = |common_us, rare_us| block_of([vec![common_us; 2_979], vec![rare_us; 21]].concat());
    let frozen = |percentile| {
        let latency_us = ByClass(vec![(ALL_CLASSES, spread(1_000.0, 7_500.0))]);
        let result = RunResult { latency_us, slip_us: spread(20.0, 7_000.0), ..result(0.0, 0.0, 0) };
        judge(&result, &Facts { percentile, ..sound() })
    };
    let [reason] = &frozen(Percentile::P99_9)[..] else { panic!("one reason") };
    assert!(reason.to_string().contains("p99.9 of the slip is 7.00 ms, above 5 %"), "{reason}");
    assert_eq!(frozen(Percentile::P99), []);
}

#[test]
fn infinite_latency_excuses_no_slip() {
    let fine = result(100.0, 5.1, 0);
    let infinite = ByClass(vec![(ALL_CLASSES, block_of(vec![f64::INFINITY; 3_000]))]);
    assert_said(&RunResult { latency_us: infinite, ..fine }, &sound(), Validity::AtMost, "which is 100 us");
}

#[test]
fn without_an_answer_there_is_nothing_to_trust() {
    let empty = ByClass(vec![(ALL_CLASSES, block_of(vec![]))]);
    let infinite = ByClass(vec![(ALL_CLASSES, block_of(vec![f64::INFINITY; 3_000]))]);
    for (kernel_dropped, lost, said) in [
        (Some(7), 2_983, "of 3000 requests 2983 were lost, 7 dropped by the server's kernel"),
        (None, 2_990, "of 3000 requests 2990 were lost, an unknown number of these dropped by the server's kernel"),
    ] {
        let fates = Fates { lost, kernel_dropped, shed: 10, ..Fates::default() };
        let [latency_us, latency_answered_us] = [&infinite, &empty].map(Clone::clone);
        let result = RunResult { fates, latency_us, latency_answered_us, ..result(0.0, 900.0, 0) };
        assert_said(&result, &sound(), Validity::Invalid, said);
    }
}

// Is a cause told before what follows from it, and does each reason say what it does to the
// figures?
#[test]
fn causes_come_first_and_each_reason_has_a_direction() {
    let facts = Facts { restarted: Some("it had 5".into()), overshoot_share: Some(Ok(0.5)), foreign: 4_000, ..sound() };
    let reasons: Vec<(Effect, String)> = judge(&result(100.0, 5.1, 0), &facts)
        .iter()
        .map(|reason| (reason.cause.effect(), reason.to_string()))
        .collect();
    let said = ["was restarted", "keep its schedule", "overslept", "no reply to a request"];
    let effects = [Effect::Any, Effect::Raises, Effect::Raises, Effect::Any];
    assert_eq!(reasons.iter().map(|(effect, _)| *effect).collect::<Vec<_>>(), effects, "{reasons:?}");
    for ((effect, reason), said) in reasons.iter().zip(said) {
        let direction = if *effect == Effect::Any { "too high or too low" } else { "can only raise the latency" };
        assert!(reason.contains(said) && reason.ends_with(direction), "{reason}");
    }
}

// Is a run VALID only without a reason, and INVALID as soon as one of its reasons can lower a
// figure? Does the worst of several results count for all?
#[test]
fn the_worst_reason_decides() {
    let of = |causes: &[Cause]| {
        let objection = |cause: &Cause| Objection { cause: *cause, why: String::new() };
        Validity::of(&causes.iter().map(objection).collect::<Vec<_>>())
    };
    let [late, foreign] = [Cause::LateSends, Cause::Foreign];
    assert_eq!(of(&[]), Validity::Valid);
    assert_eq!([of(&[late]), of(&[late, Cause::Overslept])], [Validity::AtMost; 2]);
    assert_eq!([of(&[foreign]), of(&[late, foreign]), of(&[foreign, late])], [Validity::Invalid; 3]);
    let worst = [Validity::AtMost, Validity::Invalid, Validity::Valid].into_iter().max();
    assert_eq!(worst, Some(Validity::Invalid));
    assert_eq!(Validity::Valid.max(Validity::AtMost), Validity::AtMost);
}

// By how much does a late host raise a figure? By nothing where that does not show, by its longest
// lateness where it does, and by an unknown time where that was not measured.
#[test]
fn a_late_host_raises_figures_by_what_it_was_late() {
    let raised = |facts: &Facts, slip_us| raised_us(&result(100.0, slip_us, 0), facts, Percentile::P99, 100.0);
    assert_eq!([raised(&sound(), 5.0), raised(&sound(), 5.1)], [Some(0.0), Some(5.1)]);
    let late = Facts { overshoot_share: Some(Ok(0.021)), ..sound() };
    assert_eq!(raised(&late, 5.0), Some(5.0));
    for facts in [
        Facts { run_queue_share: Some(0.021), ..sound() },
        Facts { overshoot_share: Some(Err("silent".to_owned())), ..sound() },
        Facts { own_socket_drops: Ok(1), ..sound() },
    ] {
        assert_eq!(raised(&facts, 0.0), None);
    }
}

// Does a pause of a tenth of the run discard a round, and no pause a run that is judged alone?
#[test]
fn a_host_that_stands_still_spoils_a_round() {
    let late = |late_us: f64, knows_alone| {
        let result = RunResult { late_us: block_of(vec![late_us]), ..result(100.0, 5.0, 0) };
        judge(&result, &Facts { knows_alone, ..sound() }).iter().map(|reason| reason.cause).collect::<Vec<_>>()
    };
    assert_eq!([late(300e3, false), late(301e3, false), late(301e3, true)], [vec![], vec![Cause::StoodStill], vec![]]);
}
