//! If sources send light and heavy requests, are light ones limited last? Method: as in the parent
//! module, with two kinds of requests. Requests that have not yielded go first.

use super::*;

/// A mix of requests: the share of light ones and their samples, the samples of heavy ones before
/// they yield, and after.
struct Mix {
    light: (f64, f64),
    first: f64,
    rest: f64,
}

impl Server {
    /// Simulates one period of one source with this mix. Requests that have not yielded go first;
    /// the rest is refused if no time is left. Returns the completed parts of light and of heavy
    /// requests.
    fn pass_mix(&mut self, &Mix { light: (light, time), first, rest }: &Mix, load: f64) -> [f64; 2] {
        let (rules, level_0) = (self.rules.take().unwrap_or(Rules::OPEN), light * time + (1.0 - light) * first);
        let sent = load * CAPACITY / (level_0 + (1.0 - light) * rest);
        let came = sent * rules.share(7);
        let began = came.min(CAPACITY / level_0);
        let (asked, left) = (began * (1.0 - light) * rest, CAPACITY - began * level_0);
        let counts = Part::First { begun: began as f32, ended: (began * light) as f32 };
        self.sources.add(7, false, counts, (began * level_0) as u32);
        self.sources.add(7, false, Part::Later, asked.min(left) as u32);
        self.sources.add(7, false, Part::Refused, (asked - left).max(0.0) as u32);
        let standing = match (began < came || self.stood, asked > left) {
            (true, _) => Standing::Fresh,
            (false, true) => Standing::Continuations,
            (false, false) => Standing::None,
        };
        self.stood = began < came;
        self.sources.add(7, false, Part::Unbegun { requests: (came - began) as f32 }, 1);
        let passed = Passed { periods: 1, most: CAPACITY, shed: (came - began) * 0.027, asked: came / began };
        let next = self.sources.decide(standing, passed, &rules, 1.0);
        self.rules = Some(if next.differ(&rules) { next } else { rules });
        [began / sent, began / sent * (left / asked).min(1.0)]
    }
}

// Of a single source with one heavy request in a hundred, are only those light requests lost that
// do not fit? If all its requests yield just before their end, are no more lost than do not fit?
#[test]
fn the_light_requests_of_one_source_are_cut_last() {
    let heavy = Mix { light: (0.99, 0.23), first: 2.03, rest: 18.0 };
    let alike = Mix { light: (0.5, 0.13), first: 0.11, rest: 0.02 };
    for (load, mix, of, possible, least) in [
        (1.5, &heavy, 0, 1.0, 0.96),
        (2.0, &heavy, 0, 0.866, 0.96),
        (5.0, &heavy, 0, 0.346, 0.96),
        (20.0, &heavy, 0, 0.086_6, 0.96),
        (2.0, &alike, 1, 0.5, 0.9),
        (4.0, &alike, 1, 0.25, 0.9),
    ] {
        let mut server = Server::default();
        let mut ended = || server.pass_mix(mix, load)[of];
        let ended = (0..100).map(|_| ended()).skip(20).sum::<f64>() / 80.0;
        assert!((least * possible..=possible).contains(&ended), "{ended} of {possible} at {load}");
        assert!(load < 2.0 || !server.sources.cuts_heavy(), "light ones fit at {load}");
        // The gate opens within a second, though heavy requests still wait.
        for _ in 0..4 {
            server.pass_mix(mix, 0.5);
        }
        assert_eq!(server.share(7), 1.0, "{load}");
    }
}

// If a source demands far more than others, does all of its demand count? If it demands as much as
// others, do only its light requests count?
#[test]
fn all_counts_that_is_asked_for_by_one_alone() {
    let share = |light: bool, others: u64| {
        let mut sources = Sources::default();
        let part = if light { Part::First { begun: 4_000.0, ended: 3_990.0 } } else { Part::Later };
        (0..2).for_each(|number| sources.add(ATTACKER + number, false, part, 3_000));
        (0..2).for_each(|number| sources.add(ATTACKER + number, false, Part::Refused, 3_000));
        (0..others).for_each(|prefix| sources.add(prefix, false, Part::Later, 10));
        sources.decide(Standing::Fresh, ANY, &Rules::OPEN, 1.0).share(ATTACKER)
    };
    assert_eq!(share(true, 9), share(false, 9));
    assert!((1.99..2.01).contains(&(share(true, 0) / share(false, 0))), "{}", share(true, 0));
}
