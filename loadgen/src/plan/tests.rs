use super::*;

// Is it said before a run that requests within a timeout are alike, and not where they differ?
#[test]
fn short_numbers_that_repeat_within_the_timeout_are_told() {
    let of = |payload: &str, repeats: &str, flows, timeout_ms| {
        let repeats = Some(repeats.parse().expect("a place"));
        let profile = Chosen::of_payloads(vec![payload.parse().expect("a payload")], repeats).expect("one");
        let timeout = Some(Nanos::from_millis(timeout_ms));
        Plan { profile, flows, rate: 1_000.0, timeout, ..test_plan() }.repeats()
    };
    let told = of("01{counter:1}aabb", "offset:1:1", 1, 1_000).expect("they repeat");
    assert!(
        told.starts_with("256 values x 1 flows at 1,000/s repeat after 256 ms, within the timeout of 1s"),
        "{told}"
    );
    assert!(of("00", "none", 999, 1_000).is_some_and(|told| told.starts_with("1 values x 999 flows")));
    let apart = [of("01{counter:1}", "offset:1:1", 4, 1_000), of("{counter:1}", "prefix:1", 1, 256)];
    assert_eq!(apart, [None, None]);
    assert_eq!([of("{counter:2}", "prefix:2", 1, 60_000), of("{counter:8}", "prefix:8", 1, 1 << 40)], [None, None]);
    assert_eq!(test_plan().repeats(), None, "the bench protocol has whole numbers");
}

// Do the workers of a server with CPUs of its own leave this process's CPUs to the pacer?
#[test]
fn a_server_apart_takes_no_cpu_from_the_pacer() {
    let plan = Plan { workers: Some(u16::MAX), ..test_plan() };
    assert_eq!(plan.spare_cpus(), 0, "no machine has that many CPUs to spare");
    assert_eq!(Plan { workers: Some(1), ..plan.clone() }.spare_cpus(), cpus() - 1);
    let apart = Plan { server_apart: true, ..plan };
    assert_eq!(apart.spare_cpus(), cpus());
    assert_eq!(Plan { threads: 2, ..apart.clone() }.spare_cpus(), cpus() / 2, "they share them");
    assert_eq!(Plan { workers: None, ..apart }.spare_cpus(), 0, "nobody knows the workers");
}

#[test]
fn a_flag_may_repeat_what_the_server_says_but_not_contradict_it() {
    assert_eq!(agreed("--workers", Some(2), Some(2)).ok(), Some(Some(2)));
    assert_eq!(agreed("--workers", None, Some(2)).ok(), Some(Some(2)));
    let error = agreed("--workers", Some(3), Some(2)).expect_err("a contradiction").to_string();
    assert!(error.contains("--workers is 3") && error.contains("says 2"), "{error}");
}

#[test]
fn load_is_the_share_of_capacity() {
    let plan = Plan { rate: 1_000.0, workload: "fixed:1ms".parse().expect("a form"), ..test_plan() };
    assert_eq!(plan.load(), Some(0.5));
    let charged = plan.workload.clone().with_time_beside(Nanos::from_micros(600));
    let load = Plan { workload: charged, ..plan }.load().expect("workers");
    assert!((load - 0.8).abs() < 1e-9, "{load}");
}
