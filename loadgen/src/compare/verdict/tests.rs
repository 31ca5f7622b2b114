use super::*;

fn said(ratio: Option<f64>, low: Option<f64>, high: Option<f64>) -> String {
    let (policy, against) = ("auto".to_owned(), "isolated".to_owned());
    let percentile = Percentile::P90;
    Verdict {
        policy,
        against,
        class: LIGHT,
        percentile,
        rounds: 4,
        ratio,
        low,
        high,
        virtual_time: None,
        is_enough: true,
        is_usable: true,
        planned: 4,
    }
    .said()
}

#[test]
fn a_verdict_is_better_worse_alike_or_bounded_on_one_side() {
    for (ratio, low, high, expected) in [
        (Some(135.2), Some(120.0), Some(152.0), "auto 135x lower p90 than isolated (120 to 152)"),
        (Some(0.5), Some(0.4), Some(0.8), "auto 2.00x higher p90 than isolated (1.25 to 2.50)"),
        (Some(1.1), Some(0.9), Some(1.3), "no difference shown between auto and isolated at p90 (0.90x to 1.30x)"),
        (None, Some(3.0), None, "auto at least 3.00x lower p90 than isolated"),
        (None, None, Some(0.25), "auto at least 4.00x higher p90 than isolated"),
        (None, None, None, "p90 of auto against isolated is not known"),
        (Some(2.0), None, None, "p90 of auto against isolated is not known"),
    ] {
        assert_eq!(said(ratio, low, high), format!("short requests: {expected}"));
    }
}

// Does the percentile depend on the number of requests, and on how many of them wait together?
#[test]
fn the_percentile_is_what_the_plan_supports() {
    let plan = |cost: &str, rate: f64| Plan {
        workload: cost.parse().expect("a form"),
        rate,
        duration: forebay::time::Nanos::from_secs(3),
        warmup: forebay::time::Nanos::ZERO,
        ..crate::plan::test_plan()
    };
    let of = |plan: &Plan, rounds, class| {
        let schedule = crate::drive::schedule::draw(plan).expect("a schedule");
        *percentiles(plan, &schedule, rounds).of(class).expect("a class")
    };
    let alike = plan("fixed:10us", 5_000.0);
    assert_eq!(of(&alike, 4, ALL_CLASSES), Percentile::P99_9);
    assert_eq!(of(&plan("fixed:10us", 500.0), 1, ALL_CLASSES), Percentile::P99);
    assert_eq!(of(&plan("fixed:10us", 5.0), 1, ALL_CLASSES), Percentile::P90);
    // Of 60,000 requests at a load of .7, about 14 in a row wait behind the same heavy request.
    let mixed = Plan { workers: Some(1), ..plan("bimodal:0.99:10us:1ms", 35_000.0) };
    assert_eq!([4, 1].map(|rounds| of(&mixed, rounds, LIGHT)), [Percentile::P99_9, Percentile::P99]);
    assert_eq!([4, 1].map(|rounds| of(&mixed, rounds, HEAVY)), [Percentile::P99; 2]);
    assert_eq!(of(&Plan { rate: 5_000.0, ..mixed }, 1, HEAVY), Percentile::P90);
}

// Is the verdict at the chosen percentile, or else at the highest lower one that tells? Method: two
// servers whose p50 is 354 and 466 us, of which the host was late at higher percentiles; and rounds
// that do not agree.
#[test]
fn a_verdict_is_at_the_highest_percentile_that_tells() {
    let question = Question { policy: "b", against: "a", class: ALL_CLASSES, percentile: Percentile::P99 };
    let seen = |within: &dyn Fn(u64) -> Interval| ArmFigures {
        made: 5,
        known: (1..=5).map(|seed| (seed, within(seed))).collect(),
    };
    let exact = |us: f64| move |seed: u64| Interval { low: us + seed as f64, high: us + seed as f64 };
    let at_most = |us: f64| move |_: u64| Interval { low: 0.0, high: us };
    let verdict = |known: &[Percentile], [a, b]: [&dyn Fn(u64) -> Interval; 2]| {
        Verdict::of(&question, |percentile| {
            let late = at_most(900.0);
            let [a, b] = if known.contains(&percentile) { [a, b] } else { [&late as &dyn Fn(u64) -> Interval; 2] };
            (Ratio::of(&seen(b), &seen(a), 5), Some(percentile.quantile()))
        })
    };
    let [p50, p90, p99, p99_9, ..] = Percentile::ALL;
    let (a, b) = (exact(354.0), exact(466.0));
    for (known, expected) in [(&[p50][..], p50), (&[p50, p90], p90), (&[p50, p90, p99, p99_9], p99), (&[p99], p99)] {
        let verdict = verdict(known, [&a, &b]);
        assert_eq!((verdict.percentile, verdict.is_usable), (expected, true));
        assert_eq!(verdict.virtual_time, Some(expected.quantile()), "that of the same percentile");
        let said = format!("all requests: b 1.31x higher {expected} than a (1.31 to 1.32)");
        assert_eq!(verdict.said(), said);
    }
    let unknown = verdict(&[], [&a, &b]);
    assert_eq!((unknown.percentile, unknown.is_usable), (p99, false), "the chosen one");
    assert_eq!(unknown.said(), "all requests: p99 of b against a is not known");
    // The means differ as much, and the rounds by a factor of 4.
    let [a, b] = [354.0, 466.0].map(|us| {
        move |seed: u64| {
            let us = if seed.is_multiple_of(2) { us * 2.0 } else { us / 2.0 };
            Interval { low: us, high: us }
        }
    });
    let shuffled = |seed: u64| b(seed + 1);
    let torn = verdict(&Percentile::ALL, [&a, &shuffled]);
    assert!(
        !torn.is_usable && torn.said().starts_with("all requests: p99 of b against a is not known (0."),
        "{}",
        torn.said()
    );
}

// Is it said how many rounds count, if they are too few?
#[test]
fn too_few_rounds_are_told() {
    let question = Question { policy: "b", against: "a", class: ALL_CLASSES, percentile: Percentile::P90 };
    let of = |rounds: u64, planned: usize| {
        let within = |us: f64| (0..rounds).map(|seed| (seed, Interval { low: us, high: us })).collect();
        let [own, other] = [100.0, 300.0].map(|us| ArmFigures { made: planned, known: within(us) });
        Verdict::of(&question, |_| (Ratio::of(&own, &other, planned), None)).said()
    };
    assert_eq!(of(3, 5), "all requests: b 3.00x lower p90 than a (3.00 to 3.00)");
    assert!(of(2, 5).ends_with("; only 2 of 5 rounds count for both"), "{}", of(2, 5));
    assert_eq!(of(0, 5), "all requests: p90 of b against a is not known; only 0 of 5 rounds count for both");
    let one = "all requests: p90 of b against a is not known; one round tells nothing of how much rounds differ";
    assert_eq!(of(1, 1), one);
}
