//! Who used how much CPU time of late, and what share of each source's datagrams may come in. `README.md` beside this
//! file argues the rule and its numbers.

use std::collections::BTreeMap;

/// What part of the datagrams may come in, by the prefix that they come from.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Prefixes of which everything may come in, in ascending order.
    pub pass: Vec<u64>,
    /// Prefixes of which a share may come in, in ascending order.
    pub limited: Vec<(u64, f64)>,
    /// The share of all others.
    pub rest: f64,
}

/// The queues that stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// None, or none from which anything is shed.
    #[default]
    None,
    /// Those of requests that stepped aside, and no other.
    Continuations,
    /// A socket, at least.
    Fresh,
}

/// The kernel takes a program of so many rules in a millisecond, and [`LIMITED_MAX`] more fit.
pub const PASS_MAX: usize = 2_000;
/// Each takes five times as much of a program as one of [`PASS_MAX`].
pub const LIMITED_MAX: usize = 120;
/// The least share: the server still sees who sends.
pub const SHARE_MIN: f64 = 0.02;
/// The most prefixes that are known: 6 MB. What others use counts once some of these are quiet.
const KNOWN_MAX: usize = 1 << 16;
/// What is below a quarter of a sample is forgotten: four seconds after a hundred samples.
const FORGOTTEN: f64 = 0.25;
/// Decisions whose mean tells what a prefix uses: two seconds hold some requests of each that is limited.
const MEAN_OF: f64 = 8.0;
/// For this many decisions a prefix counts as validated after its last validated sample: a minute, in which one that
/// asks for little is sampled.
const VALIDATED_FOR: u8 = 240;
/// What a standing queue takes off, as TCP's CUBIC and BBR do in about.
const DOWN: f64 = 0.9;
/// The least that comes in while a queue stands, of what the cores do.
const LEAST: f64 = 0.75;
/// What the gate returns to at once when no queue stands, of what was used while one stood.
const RETURN: f64 = 0.95;
/// What a decision keeps at least of the capacity that is known. If a queue stood at the start of a period only, the cores
/// idled at its end.
const CAPACITY_KEPT: f64 = 0.98;
/// What each decision adds from there on: 5 % take a second and a half.
const UP: f64 = 1.01;
/// The part of what comes in from which on sources that are not limited are worth room for their heavy requests.
const MODEST_FROM: f64 = 0.1;
/// [`RETURN`] and [`UP`] for their sake. With 95 %, heavy requests wait for 30 of their service times, while a flood of light
/// ones goes first.
const MODEST_RETURN: f64 = 0.8;
const MODEST_UP: f64 = 1.000_5;
/// What all prefixes that may be forged count together, of each validated one: four fifths are for these. They ask for less
/// of what is left than that where the target has fallen too far for a moment.
const FORGED_WEIGHT: f64 = 0.25;
/// The part of the capacity that validated ones may use, however far the target has fallen: the rest clears the queue.
const VALIDATED_SHARE: f64 = 0.8;
/// Below this part of the target, what comes in is far less than what was let in. Chance seldom makes it so little.
const FADES: f64 = 0.5;
/// What a source may ask for while heavy requests alone wait, of what the one in the middle does. More, and a hundred that
/// ask for more take what the others leave.
const TYPICAL: f64 = 1.5;
/// Standard deviations by which a source offers more than its level before it is cut. With none, one honest source in twelve
/// is cut at any time if each sends a heavy request in five seconds. With three, some of a hundred that flood with heavy
/// requests are not cut for ten seconds.
const SURE: f64 = 2.5;
/// If those that may be above their level offer this much of the excess of the others, the mean alone counts. Forged sources
/// are many, and each sends little.
const SPARED: f64 = 0.1;
/// Shares within this ratio are alike.
const ALIKE: f64 = 1.05;

impl Rules {
    /// Everything may come in.
    pub const OPEN: Rules = Rules { pass: Vec::new(), limited: Vec::new(), rest: 1.0 };

    /// The share of `prefix`.
    pub fn share(&self, prefix: u64) -> f64 {
        match self.limited.binary_search_by_key(&prefix, |(prefix, _)| *prefix) {
            Ok(place) => self.limited[place].1,
            Err(_) if self.pass.binary_search(&prefix).is_ok() => 1.0,
            Err(_) => self.rest,
        }
    }

    /// Whether any share differs by more than 5 %.
    pub fn differ(&self, other: &Rules) -> bool {
        let prefixes = self.limited.iter().chain(&other.limited).map(|(prefix, _)| prefix);
        let prefixes = prefixes.chain(&self.pass).chain(&other.pass);
        let differ = |one: f64, other: f64| one.max(other) > ALIKE * one.min(other);
        let opens = (*self == Rules::OPEN) != (*other == Rules::OPEN);
        opens || differ(self.rest, other.rest) || prefixes.into_iter().any(|p| differ(self.share(*p), other.share(*p)))
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules::OPEN
    }
}

/// What is known of one prefix.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Samples since the last decision, and those of requests that were refused as heavy ones.
    now: f64,
    refused: f64,
    /// Its samples in a period, and the share of it that came in: means over [`MEAN_OF`] decisions.
    used: f64,
    share: f64,
    /// The variance of its samples in a period.
    variance: f64,
    /// Decisions until it no longer counts as validated.
    validated: u8,
}

impl Known {
    /// Samples in a period that it would have if all of it came in. Of a source from which little comes in, most periods see
    /// nothing; and one is not cut for one heavy request. So it is a ratio of means.
    fn offered(&self) -> f64 {
        self.used / self.share.max(SHARE_MIN * SHARE_MIN)
    }

    /// [`Known::offered`] at least: a few heavy requests of a source that sends few may come in one mean's time.
    fn surely_offered(&self) -> f64 {
        // The variance of such a mean (Roberts 1959, of the EWMA chart).
        let deviation = (self.variance / (2.0 * MEAN_OF - 1.0)).sqrt();
        self.offered() * (1.0 - SURE * deviation / self.used.max(1.0)).max(0.0)
    }
}

/// What is known of all prefixes while a queue stands, and after it until nothing is shut out. Validated ones are known at
/// any time.
#[derive(Debug, Default)]
pub struct Sources {
    known: BTreeMap<u64, Known>,
    /// Samples in a period that the gate lets through.
    target: f64,
    /// Samples in a period in which a queue stood.
    capacity: f64,
    /// Decisions since something may be shut out; 0 while nothing is.
    decided: u8,
}

impl Sources {
    /// Adds `samples` of CPU time that a request from `prefix` took, or asked for if it was `refused` as a heavy one.
    pub fn add(&mut self, prefix: u64, validated: bool, refused: bool, samples: u32) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&prefix) {
            return;
        }
        // As if nothing of it had come for a period.
        let known = self.known.entry(prefix).or_insert(Known { share: 1.0 / MEAN_OF, ..Known::default() });
        *(if refused { &mut known.refused } else { &mut known.now }) += f64::from(samples);
        if validated {
            known.validated = VALIDATED_FOR;
        }
    }

    /// Whether anything is shut out, or may be.
    pub fn is_active(&self) -> bool {
        self.decided > 0
    }

    /// The share of the CPU time asked for that `rules` let through.
    pub fn let_through(&self, rules: &Rules) -> f64 {
        let sum = |of: &dyn Fn(u64) -> f64| {
            self.known.iter().map(|(prefix, known)| known.offered() * of(*prefix)).sum::<f64>()
        };
        let all = sum(&|_| 1.0);
        if all > 0.0 { sum(&|prefix| rules.share(prefix)) / all } else { 1.0 }
    }

    /// The rules from now on. Since the last decision, `periods` ago, `in_force` held, and these queues stood. Of what came
    /// in, one request in `asked` was served: queues shed the same part of every source. `scale` bounds the number of rules:
    /// 1 = as many as there may be.
    pub fn decide(&mut self, standing: Standing, periods: u32, asked: f64, in_force: &Rules, scale: f64) -> Rules {
        if standing == Standing::None && !self.is_active() {
            self.forget();
            return Rules::OPEN;
        }
        let begins = !self.is_active();
        let used = self.advance(f64::from(periods), asked.clamp(1.0, 1.0 / SHARE_MIN), in_force);
        let target = if begins { used } else { self.target };
        // Far less came than was let in: the flood is over, and what is known of it fades.
        if standing == Standing::None && used < FADES * target {
            self.known.values_mut().for_each(|known| known.used /= 2.0);
        }
        self.target = if standing == Standing::None {
            let (back, up) = if self.has_modest(in_force) { (MODEST_RETURN, MODEST_UP) } else { (RETURN, UP) };
            (target * up).max(back * self.capacity)
        } else {
            self.capacity = used.max(CAPACITY_KEPT * self.capacity);
            (DOWN * target.min(used)).max(LEAST * used)
        };
        let levels = self.levels(self.target, standing == Standing::Continuations);
        let rules = self.rules(levels, in_force, scale);
        if rules == Rules::OPEN {
            self.forget();
        }
        rules
    }

    /// Whether sources that are not limited use a good part of what comes in.
    fn has_modest(&self, in_force: &Rules) -> bool {
        let (mut modest, mut all) = (0.0, 0.0);
        for (prefix, known) in &self.known {
            let share = in_force.share(*prefix);
            all += share * known.offered();
            modest += if share < 1.0 { 0.0 } else { known.offered() };
        }
        modest > MODEST_FROM * all
    }

    /// Keeps of all prefixes only that some were validated of late.
    fn forget(&mut self) {
        (self.decided, self.capacity) = (0, 0.0);
        self.known.retain(|_, known| {
            *known = Known { validated: known.validated.saturating_sub(1), ..Known::default() };
            known.validated > 0
        });
    }

    /// Ends so many periods, in which sources `asked` for so many times what they had. Returns the samples of a period.
    fn advance(&mut self, periods: f64, asked: f64, in_force: &Rules) -> f64 {
        // When a queue begins to stand, all that is old in it is shed at once, also of sources that were served before. So
        // the first decision goes by what was served, and the second one replaces what it knew.
        let (begins, asked) = if self.decided == 0 { (true, 1.0) } else { (self.decided == 1, asked) };
        let mut used = 0.0;
        self.decided = self.decided.saturating_add(1);
        for (prefix, known) in &mut self.known {
            // Where one request in `asked` is served, chance decides of which source. So the period weighs less.
            let share = in_force.share(*prefix) / asked;
            used += known.now / periods;
            let now = (known.now + known.refused) / periods;
            let off = now - known.used;
            if begins {
                // As if it were all of one request.
                (known.used, known.share, known.variance) = (now, share, now * now);
            } else {
                known.used += off / MEAN_OF;
                known.share += (share - known.share) / MEAN_OF;
                known.variance += (off * off * (1.0 - 1.0 / MEAN_OF) - known.variance) / MEAN_OF;
            }
            (known.now, known.refused) = (0.0, 0.0);
            known.validated = known.validated.saturating_sub(1);
        }
        self.known.retain(|_, known| known.validated > 0 || known.offered() >= FORGOTTEN);
        used
    }

    /// The most that may come in from a validated prefix, and from any other one, so that all together is `target`. All
    /// prefixes that may be forged count together, since their number says nothing.
    fn levels(&self, target: f64, only_heavy: bool) -> [f64; 2] {
        let of = |validated: bool| self.known.values().filter(move |known| (known.validated > 0) == validated);
        let demands = |validated| of(validated).map(|known| (known.offered(), 1.0)).collect::<Vec<_>>();
        let (mut validated, mut forged) = (demands(true), demands(false));
        let (weight, offered) =
            ((validated.len() as f64 * FORGED_WEIGHT).max(1.0), forged.iter().map(|(offered, _)| offered).sum::<f64>());
        validated.push((offered, weight));
        let first = level(&mut validated, target.max(VALIDATED_SHARE * self.capacity));
        let kept = demands(true).iter().map(|(offered, _)| offered.min(first)).sum::<f64>();
        let left = offered.min(first * weight).min((target - kept).max(0.0));
        let mut levels = [level(&mut forged, left), first];
        // A source is not cut for its heavy requests alone. One that may be forged is, where others are validated.
        if only_heavy {
            let preferred = demands(true);
            let is_any = !preferred.is_empty();
            let level = &mut levels[usize::from(is_any)];
            *level = level.max(TYPICAL * median(if is_any { preferred } else { forged }));
        }
        levels
    }

    fn rules(&self, levels: [f64; 2], in_force: &Rules, scale: f64) -> Rules {
        let most = |count: usize| (count as f64 * scale) as usize;
        let level = |known: &Known| levels[usize::from(known.validated > 0)];
        let share = |known: &Known| (level(known) / known.offered()).clamp(SHARE_MIN, 1.0);
        let (mut cut, mut whole): (Vec<_>, Vec<_>) = self.known.iter().partition(|(_, known)| share(known) < 1.0);
        // First those of which most is shut out.
        let excess = |known: &Known| known.offered() * (1.0 - share(known));
        // Those that do take too much, or did so before they were cut, and the others, which may not.
        let is_sure =
            |prefix: u64, known: &Known| in_force.share(prefix) < 1.0 || known.surely_offered() > level(known);
        let (sure, maybe): (Vec<_>, Vec<_>) = cut.iter().copied().partition(|(prefix, known)| is_sure(**prefix, known));
        let of = |sources: &[(&u64, &Known)]| sources.iter().map(|(_, known)| excess(known)).sum::<f64>();
        if of(&maybe) < SPARED * of(&sure) {
            cut = sure;
            whole.extend(maybe);
        }
        cut.sort_by(|(_, one), (_, other)| excess(other).total_cmp(&excess(one)));
        let unlisted = cut.split_off(cut.len().min(most(LIMITED_MAX)));
        // The share of all others is far too small for a validated one.
        let (unlisted_validated, unlisted): (Vec<_>, Vec<_>) =
            unlisted.into_iter().partition(|(_, known)| known.validated > 0);
        whole.extend(unlisted_validated);
        let mut limited: Vec<_> = cut.iter().map(|(prefix, known)| (**prefix, share(known))).collect();
        limited.sort_by_key(|(prefix, _)| *prefix);
        if unlisted.is_empty() {
            return Rules { limited, ..Rules::OPEN };
        }
        let others =
            || unlisted.iter().chain(whole.iter().filter(|(_, known)| known.validated == 0)).map(|(_, known)| known);
        let granted: f64 = others().map(|known| known.offered() * share(known)).sum();
        let rest = (granted / others().map(|known| known.offered()).sum::<f64>()).max(SHARE_MIN);
        whole.retain(|(_, known)| known.validated > 0);
        whole.sort_by(|(_, one), (_, other)| other.offered().total_cmp(&one.offered()));
        whole.truncate(most(PASS_MAX));
        let mut pass: Vec<_> = whole.iter().map(|(prefix, _)| **prefix).collect();
        pass.sort_unstable();
        Rules { pass, limited, rest }
    }
}

/// What the source in the middle offers: half of them offer less.
fn median(mut demands: Vec<(f64, f64)>) -> f64 {
    let middle = demands.len() / 2;
    match demands.len() {
        0 => 0.0,
        _ => demands.select_nth_unstable_by(middle, |(one, _), (other, _)| one.total_cmp(other)).1.0,
    }
}

/// The level at which demands, each with its weight, fill `target` (max-min fairness): none gets more than the level times
/// its weight. Infinite where all fit.
fn level(demands: &mut [(f64, f64)], target: f64) -> f64 {
    demands.sort_by(|(one, weight), (other, others)| (one / weight).total_cmp(&(other / others)));
    let (mut left, mut weights) = (target, demands.iter().map(|(_, weight)| weight).sum::<f64>());
    for (offered, weight) in demands {
        // A rounding error must not cut the last of them.
        if *offered * weights > left * *weight * (1.0 + 1e-9) {
            return left / weights;
        }
        (left, weights) = (left - *offered, weights - *weight);
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests;
