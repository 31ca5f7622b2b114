//! Does the gate limit exactly the sources that take too much? Method: sources of constant rate on
//! cores of fixed capacity, in steps of a quarter of a second.

use super::known::VALIDATED_FOR;
use super::*;
use proptest::prelude::*;
use std::ops::Range;

mod light;

/// One period, with any amount of time for the cores.
const ANY: Passed = Passed { periods: 1, most: f64::INFINITY, shed: 0.0, asked: 1.0 };
/// Samples that two cores yield in a period.
const CAPACITY: f64 = 5_000.0;

/// A simulated server: how much CPU time it uses in a period, and how much of it each source gets.
#[derive(Default)]
struct Server {
    sources: Sources,
    rules: Option<Rules>,
    /// Whether a socket stood in the last period.
    stood: bool,
    /// A fraction of a sample that differs each time.
    part: f64,
}

impl Server {
    /// Simulates one period in which sources demand `demands`. Returns the samples used.
    fn pass(&mut self, demands: &[(u64, bool, f64)], standing: Standing) -> f64 {
        let rules = self.rules.take().unwrap_or(Rules::OPEN);
        let let_in: f64 = demands.iter().map(|(prefix, _, demand)| demand * rules.share(*prefix)).sum();
        let served = (CAPACITY / let_in).min(1.0);
        for (prefix, validated, demand) in demands {
            // The golden ratio spreads the fractions evenly.
            self.part = (self.part + 0.618_033_988_75) % 1.0;
            let let_in = demand * rules.share(*prefix);
            self.sources.add(*prefix, *validated, Part::Later, (let_in * served + self.part) as u32);
            if standing == Standing::Continuations {
                self.sources.add(*prefix, *validated, Part::Refused, (let_in * (1.0 - served) + self.part) as u32);
            }
        }
        // Requests that wait in the sockets are shed in the next period.
        let stands = let_in > CAPACITY;
        let standing = if stands || self.stood { standing } else { Standing::None };
        self.stood = stands;
        let asked = if standing == Standing::Fresh { 1.0 / served } else { 1.0 };
        let next = self.sources.decide(standing, Passed { asked, ..ANY }, &rules, 1.0);
        self.rules = Some(if next.differ(&rules) { next } else { rules });
        let_in.min(CAPACITY)
    }

    /// The share of the capacity that is used in periods 20 to 100.
    fn settle(&mut self, demands: &[(u64, bool, f64)], standing: Standing) -> f64 {
        self.passes(20, demands, standing);
        self.passes(80, demands, standing) / 80.0 / CAPACITY
    }

    fn passes(&mut self, count: usize, demands: &[(u64, bool, f64)], standing: Standing) -> f64 {
        (0..count).map(|_| self.pass(demands, standing)).sum()
    }

    /// Simulates attackers that demand a multiple of the capacity, and others that demand a part of
    /// it. In each of `checked`, each attacker must keep a share in `shares`; the others must keep
    /// all at any time. Returns the share of the capacity that is used from period 20 on.
    fn cuts(
        &mut self,
        (others, load): (u64, f64),
        (attackers, flood): (u64, f64),
        standing: Standing,
        checked: Range<u64>,
        shares: Range<f64>,
    ) -> f64 {
        let attack = (0..attackers).map(|number| (ATTACKER + number, false, flood * CAPACITY / attackers as f64));
        let demands: Vec<_> = honest(others, load, false).into_iter().chain(attack).collect();
        let used = (0..checked.end).map(|period| {
            let used = self.pass(&demands, standing);
            assert!((0..others).all(|prefix| self.share(prefix) == 1.0), "{period}");
            let kept: Vec<f64> = (0..attackers).map(|number| self.share(ATTACKER + number)).collect();
            let is_cut = kept.iter().all(|share| shares.contains(share));
            assert!(is_cut || !checked.contains(&period), "{period}: {kept:?} to {attackers} beside {others}");
            if period < 20 { 0.0 } else { used }
        });
        used.sum::<f64>() / checked.end.saturating_sub(20) as f64 / CAPACITY
    }

    fn share(&self, prefix: u64) -> f64 {
        self.rules.as_ref().map_or(1.0, |rules| rules.share(prefix))
    }
}

fn honest(count: u64, load: f64, validated: bool) -> Vec<(u64, bool, f64)> {
    (0..count).map(|number| (number, validated, CAPACITY * load / count as f64)).collect()
}

const ATTACKER: u64 = 1 << 40;

// Is a flood limited, and no other source at any time? Do the others keep all their requests?
#[test]
fn those_that_flood_are_cut_and_no_others() {
    for (others, attackers, from, shares, most) in
        [(200, 1, 16, 0.0..0.04, 0.8..0.9), (200, 100, 99, 0.02..0.035, 0.8..0.9), (0, 1, 16, 0.04..0.06, 0.9..1.01)]
    {
        let mut server = Server::default();
        let used = server.cuts((others, 0.4), (attackers, 20.0), Standing::Fresh, from..100, shares);
        assert!(most.contains(&used), "{used} beside {others}");
        // When the flood has ended, the gate opens.
        server.passes(20, &honest(others, 0.4, false), Standing::Fresh);
        assert_eq!((server.rules, server.sources.is_active()), (Some(Rules::OPEN), false));
    }
}

// If a flood of a thousand times the capacity comes from more prefixes than there are rules, is a
// fiftieth of each still admitted? Then the server sees who sends.
#[test]
fn the_gate_closes_to_a_fiftieth() {
    let mut server = Server::default();
    let demands: Vec<_> = (0..2 * LIMITED_MAX as u64).map(|prefix| (prefix, false, 10.0 * CAPACITY)).collect();
    server.passes(100, &demands, Standing::Fresh);
    let shares: Vec<f64> = demands.iter().map(|(prefix, ..)| server.share(*prefix)).collect();
    assert!(shares.iter().all(|share| (0.02..0.021).contains(share)), "{shares:?}");
}

// If only heavy requests wait, is a flood of them limited within a second? Are sources above the
// median limited to the capacity that the others leave, a fifth and three fifths?
#[test]
fn heavy_requests_are_cut_to_what_others_leave() {
    for (others, attackers, periods, shares) in [
        ((200, 0.4), (1, 20.0), 3..4, 0.0..0.05),
        ((200, 0.4), (100, 20.0), 3..4, 0.0..0.05),
        ((49, 0.8), (1, 2.0), 49..50, 0.01..0.15),
        ((200, 0.4), (100, 2.0), 49..50, 0.2..0.3),
    ] {
        Server::default().cuts(others, attackers, Standing::Continuations, periods, shares);
    }
}

// If a queue stood for a part of a period and the cores then idled, is their capacity still known?
#[test]
fn a_queue_that_soon_ends_says_little_of_the_capacity() {
    let mut sources = Sources::default();
    let limited = Rules { limited: vec![(7, 0.5)], ..Rules::OPEN };
    for (used, asked) in [(5_000, 1.0), (5_000, 2.0), (3_500, 1.01)] {
        sources.add(7, false, Part::Later, used);
        sources.decide(Standing::Fresh, Passed { asked, ..ANY }, &limited, 1.0);
    }
    sources.add(7, false, Part::Later, 3_500);
    sources.decide(Standing::None, ANY, &limited, 1.0);
    let target = sources.target;
    assert!(sources.is_active(), "the gate is on");
    assert!((4_750.0..4_900.0).contains(&target), "{target}");
}

// A flood of four times the capacity, mostly shed, keeps the cores busy. Is it limited at once, to
// a share of its demand that does not include the time to shed?
#[test]
fn what_it_takes_to_shed_is_no_demand() {
    let (mut sources, mut rules) = (Sources::default(), Rules::OPEN);
    for (asked, shares) in [(4.0, 0.94..0.96), (3.75, 0.22..0.25)] {
        sources.add(7, false, Part::First { begun: 800.0, ended: 800.0 }, 8_000);
        sources.add(7, false, Part::Unbegun { requests: (asked as f32 - 1.0) * 800.0 }, 1);
        let passed = Passed { most: 10_000.0, shed: 3_000.0, asked, ..ANY };
        rules = sources.decide(Standing::Fresh, passed, &rules, 1.0);
        assert!(shares.contains(&rules.share(7)), "{rules:?}");
    }
}

// A flood of one flow fills one socket, where most requests are shed. Is each source's offer
// estimated from its own shed requests, or, if it has few requests, from those of all sources?
#[test]
fn what_is_shed_of_one_source_says_little_of_others() {
    let mut sources = Sources::default();
    for _ in 0..2 {
        for (prefix, begun, samples, unbegun) in [(1, 1_000.0, 1_000, 0.0), (2, 0.0, 10, 0.0), (7, 100.0, 2_000, 300.0)]
        {
            sources.add(prefix, false, Part::First { begun, ended: begun }, samples);
            sources.add(prefix, false, Part::Unbegun { requests: unbegun }, 1);
        }
        sources.decide(Standing::Fresh, Passed { asked: 1.25, ..ANY }, &Rules::OPEN, 1.0);
    }
    let offered = [1, 2, 7].map(|prefix| sources.known[&prefix].offered().round());
    assert_eq!(offered, [1_001.0, 13.0, 7_788.0]);
}

// With a single source, such as a load generator, does the share keep the cores busy at any load?
#[test]
fn one_source_alone_keeps_the_cores_busy() {
    for load in [1.2, 2.0, 4.0, 20.0] {
        let mut server = Server::default();
        let used = server.settle(&[(7, false, load * CAPACITY)], Standing::Fresh);
        assert!(used > 0.9, "{used} at {load}");
        // At half of the capacity, the gate opens within a second.
        server.passes(4, &[(7, false, 0.5 * CAPACITY)], Standing::Fresh);
        assert_eq!(server.share(7), 1.0, "{load}");
        // Heavy requests alone are no reason to limit it.
        let mut server = Server::default();
        server.passes(50, &[(7, false, load * CAPACITY)], Standing::Continuations);
        assert_eq!(server.share(7), 1.0, "{load}");
    }
}

// Two seconds after a flood began, do the cores serve at capacity?
#[test]
fn a_flood_is_soon_cut_to_the_capacity() {
    for load in [2.0, 4.0, 8.0] {
        let mut server = Server::default();
        server.passes(8, &[(7, false, load * CAPACITY)], Standing::Fresh);
        assert!((0.7..1.05).contains(&(server.share(7) * load)), "{} at {load}", server.share(7));
    }
}

// A hundred sources demand twice the capacity in heavy requests, of which few are admitted, so most
// periods have none of a given source. Do they stay limited?
#[test]
fn sources_of_rare_requests_stay_cut() {
    let (mut sources, mut rules, mut kept) = (Sources::default(), Rules::OPEN, 0.0);
    for period in 0..100_u64 {
        (0..200).for_each(|prefix| sources.add(prefix, false, Part::Later, 10));
        for number in 0..100 {
            let came = 2.0 * CAPACITY / 100.0 / 200.0 * rules.share(ATTACKER + number);
            let part = |period: u64| ((number * 37 + period * 61) % 100) as f64 / 100.0;
            sources.add(ATTACKER + number, false, Part::Later, if part(period) < came { 200 } else { 0 });
            kept += if period < 20 { 0.0 } else { rules.share(ATTACKER + number) / 8_000.0 };
        }
        rules = sources.decide(Standing::Fresh, ANY, &rules, 1.0);
    }
    assert!(kept < 0.5, "{kept}");
}

// Two hundred sources send a heavy request every five seconds, at random, and a hundred flood with
// light requests. Are almost none of the two hundred limited, and all of the hundred?
#[test]
fn chance_cuts_no_source_of_few_heavy_requests() {
    let (mut sources, mut rules, mut cut, mut spared, mut state) = (Sources::default(), Rules::OPEN, 0, 0, 7_u64);
    for period in 0..200 {
        for prefix in 0..200 {
            // The last digits of a Lehmer generator.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let heavy = if (state >> 33) % 20 == 0 { 100.0 } else { 0.0 };
            sources.add(prefix, false, Part::Later, ((5.0 + heavy) * rules.share(prefix)) as u32);
            cut += u32::from(period > 20 && rules.share(prefix) < 1.0);
        }
        for number in 0..100 {
            let came = 2.0 * CAPACITY / 100.0 * rules.share(ATTACKER + number);
            sources.add(ATTACKER + number, false, Part::Later, came as u32);
            spared += u32::from(period > 20 && rules.share(ATTACKER + number) == 1.0);
        }
        let standing = if period % 10 < 5 { Standing::Fresh } else { Standing::None };
        rules = sources.decide(standing, ANY, &rules, 1.0);
    }
    let cut = f64::from(cut) / (179.0 * 200.0);
    assert!(cut < 0.01 && spared == 0, "{cut} of the honest ones cut, {spared} times one of the others not");
}

// 100 validated prefixes send beside 10,000 forged ones, which change each period. Do the validated
// ones keep all their requests?
#[test]
fn forged_prefixes_leave_validated_ones_alone() {
    let (mut server, honest) = (Server::default(), honest(100, 0.4, true));
    for period in 0..40 {
        let forged = (0..10_000).map(|number| (ATTACKER + (period * 7_919 + number) % 60_000, false, 2.0));
        let demands: Vec<_> = honest.iter().copied().chain(forged).collect();
        server.pass(&demands, Standing::Fresh);
        assert!((0..100).all(|prefix| server.share(prefix) == 1.0), "{period}");
    }
    let Rules { pass, limited, rest } = server.rules.expect("some");
    assert!(
        pass.len() == 100 && limited.len() <= LIMITED_MAX && rest < 0.35,
        "{} {} {rest}",
        pass.len(),
        limited.len()
    );
    assert!(server.sources.known.len() <= KNOWN_MAX);
}

// Do validated prefixes keep all also while only heavy requests wait, and each is quiet for four
// seconds after each request?
#[test]
fn quiet_validated_prefixes_are_remembered() {
    let (mut server, mut kept) = (Server::default(), 0.0);
    for period in 0..64 {
        let honest = (0..1_600).filter(|number| (number + period) % 16 == 0).map(|number| (number, true, 20.0));
        let forged = (0..10_000).map(|number| (ATTACKER + number, false, 1.0));
        let demands: Vec<_> = honest.chain(forged).collect();
        server.pass(&demands, Standing::Continuations);
        if period >= 32 {
            assert!((0..1_600).all(|prefix| server.share(prefix) == 1.0), "{period}");
            kept += (0..10_000).map(|number| server.share(ATTACKER + number)).sum::<f64>() / 32.0;
        }
    }
    assert!((1_000.0..0.7 * CAPACITY).contains(&kept), "{kept} of what may be forged, {CAPACITY} with what is not");
}

// If a queue stands long after a burst, do validated prefixes keep their demand at any target?
#[test]
fn a_low_target_is_taken_from_what_may_be_forged() {
    let known = |validated| {
        let mut known = Known::unseen();
        known.add(validated, Part::Later, 20.0);
        known.advance(1.0, 1.0, true);
        known
    };
    let validated = (0..100).map(|prefix| (prefix, known(true)));
    let known = validated.chain((0..100).map(|number| (ATTACKER + number, known(false)))).collect();
    let sources = Sources { known, capacity: CAPACITY, ..Sources::default() };
    let [forged, validated] = sources.levels(500.0);
    assert!(forged == 0.0 && validated >= 20.0, "{forged} {validated}");
}

#[test]
fn nothing_is_kept_while_no_queue_stands() {
    let mut sources = Sources::default();
    sources.add(1, false, Part::Later, 100);
    assert_eq!(sources.decide(Standing::None, ANY, &Rules::OPEN, 1.0), Rules::OPEN);
    assert!(sources.known.is_empty() && !sources.is_active());
    // But a source stays validated, and passes once a flood begins.
    sources.add(1, true, Part::Later, 1);
    for period in 0..VALIDATED_FOR {
        let mut flooded = Sources { known: sources.known.clone(), ..Sources::default() };
        (0..1_000).for_each(|number| flooded.add(ATTACKER + number, false, Part::Later, 100));
        let pass = flooded.decide(Standing::Fresh, ANY, &Rules::OPEN, 1.0).pass;
        assert_eq!(pass, if period < VALIDATED_FOR - 1 { vec![1] } else { Vec::new() }, "{period}");
        sources.decide(Standing::None, ANY, &Rules::OPEN, 1.0);
    }
    assert!(sources.known.is_empty());
}

#[test]
fn fewer_rules_are_those_that_matter_most() {
    let mut sources = Sources::default();
    (0..1_000).for_each(|prefix| sources.add(prefix, prefix >= 900, Part::Later, 100 + prefix as u32));
    let rules = sources.decide(Standing::Fresh, ANY, &Rules::OPEN, 0.012_5);
    assert_eq!((rules.limited.len(), rules.pass.len()), (1, 25));
    assert!(rules.limited.iter().all(|(prefix, _)| *prefix == 899), "{rules:?}");
    assert!(rules.rest < 1.0 && rules.pass.iter().all(|prefix| *prefix >= 975), "{rules:?}");
}

proptest! {
    // Does the level fill the target, give no demand more than it asks for, and no demand less than
    // a larger one gets?
    #[test]
    fn a_level_is_max_min_fair(
        demands in prop::collection::vec((0.1..100.0_f64, 1.0..5.0_f64), 1..50),
        target in 1.0..1_000.0_f64,
    ) {
        let level = level(&mut demands.clone(), target);
        let given: f64 = demands.iter().map(|(offered, weight)| offered.min(level * weight)).sum();
        let all: f64 = demands.iter().map(|(offered, _)| offered).sum();
        prop_assert!((given - all.min(target)).abs() < 1e-6 * target.max(all), "{given} of {all}, {target}");
        prop_assert_eq!(level.is_infinite(), all <= target * (1.0 + 1e-9));
    }
}
