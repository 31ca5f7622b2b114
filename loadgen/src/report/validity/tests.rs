use super::*;
use crate::report::by_class::{ByClass, Values, block_of};
use forebay::lab::stats::{Memory, PRECISION};
use forebay::metrics::ALL_CLASSES;

fn bounded(values: Vec<f64>) -> Block {
    let mut stream = Values::default();
    values.into_iter().for_each(|value| stream.add(value));
    stream.into_block(Memory::UNKNOWN, PRECISION)
}

fn result(latency_us: f64, slip_us: f64, slips_over_limit: u64) -> RunResult {
    let latency = ByClass(vec![(ALL_CLASSES, bounded(vec![latency_us; 7_000]))]);
    RunResult {
        fates: Fates { answered: 3_000, ..Fates::default() },
        latency_us: latency.clone(),
        latency_answered_us: latency.clone(),
        slowdown: latency,
        slip_us: block_of(vec![slip_us; 3_000]),
        slips_over_limit,
        slowdowns: ByClass(vec![]),
        memory: Memory::UNKNOWN,
        by_second: Vec::new(),
    }
}

fn sound() -> Facts {
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
        overshoot_share: Some(Ok(0.02)),
        run_queue_share: Some(0.02),
        endpoint_error: None,
        restarted: None,
        reconciled: Some(reconciled(4_000)),
        interrupted: false,
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
    assert_eq!(judge(&result(100.0, 5.0, 3), &sound()), (Validity::Valid, vec![]));
    assert_eq!(judge(&result(60_000.0, 3_000.0, 0), &sound()).0, Validity::Valid);
    let alone = Facts { reconciled: None, overshoot_share: None, run_queue_share: None, ..sound() };
    assert_eq!(judge(&result(100.0, 5.0, 3), &alone), (Validity::Valid, vec![]), "no server was asked");
}

#[test]
fn each_defect_is_a_reason_of_its_own() {
    let fine = || result(100.0, 5.0, 0);
    let percentile = Percentile::P99_95;
    let unknown = || Err("no /proc".to_owned());
    for (result, facts, expected) in [
        (
            result(100.0, 5.1, 0),
            sound(),
            "p99.9 of the slip is 5.10 us, above 5 % of p99.9 of the latency, which is 100",
        ),
        (result(100.0, 5.1, 0), Facts { pacer: Pacer::Ordinary, ..sound() }, "cap_sys_nice"),
        (result(60_000.0, 3_001.0, 0), sound(), "which is 60.0 ms"),
        (result(100.0, 5.0, 4), sound(), "4 of 3000 sends"),
        (
            fine(),
            Facts { attempts: AttemptCounts { late: 2, ..sound().attempts }, ..sound() },
            "2 of 1000 were more than 10.0 ms late",
        ),
        (fine(), Facts { percentile, ..sound() }, "p99.95 of the latency is not known within a factor of 2: its"),
        (fine(), Facts { own_socket_drops: Ok(7), ..sound() }, "dropped 7 replies"),
        (fine(), Facts { own_socket_drops: unknown(), ..sound() }, "own sockets are not known: no /proc"),
        (
            fine(),
            Facts { send_errors: errors(5), ..sound() },
            "refused 5 of 4000 requests, above 0.1 % (no room; no way)",
        ),
        (fine(), Facts { send_buffer_errors: Ok(1), ..sound() }, "did not send 1 datagrams"),
        (fine(), Facts { send_buffer_errors: Ok(1), ..sound() }, "those of another process"),
        (fine(), Facts { send_buffer_errors: unknown(), ..sound() }, "what it took is not known: no /proc"),
        (fine(), Facts { foreign: 41, ..sound() }, "41 of 4000 datagrams that came are no reply"),
        (fine(), Facts { run_queue_share: Some(0.021), ..sound() }, "waited for a CPU for 2.1 % of the run"),
        (fine(), Facts { overshoot_share: Some(Ok(0.021)), ..sound() }, "overslept by 2.1 %"),
        (
            fine(),
            Facts { overshoot_share: Some(Err("no /proc".into())), ..sound() },
            "overslept is not known: no /proc",
        ),
        (fine(), Facts { endpoint_error: Some("refused".into()), ..sound() }, "did not answer: refused"),
        (fine(), Facts { restarted: Some("it had 5".into()), ..sound() }, "was restarted in the course of the run: it"),
        (fine(), Facts { reconciled: Some(reconciled(3_999)), ..sound() }, "1 datagrams are unaccounted for"),
        (fine(), Facts { reconciled: Some(reconciled(4_001)), ..sound() }, "1 datagrams more than"),
        (fine(), Facts { interrupted: true, ..sound() }, "interrupted"),
    ] {
        let (validity, reasons) = judge(&result, &facts);
        assert_eq!(validity, Validity::Invalid, "{expected}");
        assert!(reasons.len() == 1 && reasons[0].contains(expected), "{expected}: {reasons:?}");
    }
}

// A generator that is frozen for 7 ms in each second is late with 0.7 % of its requests. That is nothing at p99, and
// most of the latency at p99.9.
#[test]
fn slip_is_judged_at_the_percentile_that_is_claimed() {
    let spread = |common_us, rare_us| block_of([vec![common_us; 2_979], vec![rare_us; 21]].concat());
    let frozen = |percentile| {
        let latency_us = ByClass(vec![(ALL_CLASSES, spread(1_000.0, 7_500.0))]);
        let result = RunResult { latency_us, slip_us: spread(20.0, 7_000.0), ..result(0.0, 0.0, 0) };
        judge(&result, &Facts { percentile, ..sound() }).1
    };
    assert!(frozen(Percentile::P99_9).concat().contains("p99.9 of the slip is 7.00 ms, above 5 %"));
    assert_eq!(frozen(Percentile::P99), Vec::<String>::new());
}

#[test]
fn infinite_latency_excuses_no_slip() {
    let fine = result(100.0, 5.1, 0);
    let infinite = ByClass(vec![(ALL_CLASSES, block_of(vec![f64::INFINITY; 3_000]))]);
    let reasons = judge(&RunResult { latency_us: infinite, ..fine }, &sound()).1;
    assert!(reasons.len() == 1 && reasons[0].contains("which is 100 us"), "{reasons:?}");
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
        let (validity, reasons) = judge(&result, &sound());
        assert_eq!(validity, Validity::Invalid);
        assert!(reasons.len() == 1 && reasons[0].contains(said), "{said}: {reasons:?}");
    }
}
