//! Who used how much CPU time of late, and what share of each source's datagrams may come in.
//! `sources/README.md` argues the rule and its numbers.

use known::{Counts, Known};
use std::collections::BTreeMap;

mod known;

pub use known::Part;

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

/// The most prefixes that pass: the kernel takes their rules in 1 ms, and [`LIMITED_MAX`] fit too.
pub const PASS_MAX: usize = 2_000;
/// The most limited prefixes. One takes as much of a program as five of [`PASS_MAX`].
pub const LIMITED_MAX: usize = 120;
/// The least share: the server still sees who sends.
pub const SHARE_MIN: f64 = 0.02;
/// The most known prefixes: 6 MB. Others count once some of these are quiet.
const KNOWN_MAX: usize = 1 << 16;
/// A source below a quarter of a sample is forgotten: four seconds after a hundred samples.
const FORGOTTEN: f64 = 0.25;
/// The target's factor while a queue stands. The queue is a few percent of a period long, so the
/// next period clears it.
const DOWN: f64 = 0.95;
/// The least target while a queue stands, of what the cores do.
const LEAST: f64 = 0.75;
/// The part of the capacity to which the target returns when no queue stands.
const RETURN: f64 = 0.98;
/// A decision keeps at least this part of the known capacity. If a queue stood at the start of a
/// period only, the cores idled at its end.
const CAPACITY_KEPT: f64 = 0.98;
/// The target's factor in each decision after that: 5 % take a second and a half.
const UP: f64 = 1.01;
/// Sources that are not limited get room for their heavy requests above this part of what comes in.
const MODEST_FROM: f64 = 0.1;
/// [`RETURN`] and [`UP`] for such sources. With 95 %, heavy requests wait for 30 of their service
/// times, while a flood of light ones goes first.
const MODEST_RETURN: f64 = 0.8;
const MODEST_UP: f64 = 1.000_5;
/// The weight of all prefixes that may be forged, over that of all validated ones: these keep four
/// fifths. The others get less where the target has fallen too far for a moment.
const FORGED_WEIGHT: f64 = 0.25;
/// The part of the capacity that validated ones may use, however far the target has fallen: the
/// rest clears the queue.
const VALIDATED_SHARE: f64 = 0.8;
/// An offer below this part of the target fits. A flood seldom falls so low by chance.
const FITS: f64 = 0.8;
/// The gate does not cut a source for heavy requests up to this many times the median source's
/// offer. Above 1.5, a hundred sources may take what the others leave.
const TYPICAL: f64 = 1.5;
/// Below this part of the sure sources' excess, sources whose excess is uncertain are not cut.
/// Forged sources are many, and each sends little.
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

/// What is known of prefixes: of all while something is shut out, or a queue stands, and of
/// validated ones at any time.
#[derive(Debug, Default)]
pub struct Sources {
    known: BTreeMap<u64, Known>,
    /// Samples in a period that the gate lets through.
    target: f64,
    /// Samples in a period in which a queue stood.
    capacity: f64,
    /// Decisions since something may be shut out; 0 while nothing is.
    decided: u8,
    /// The queues that the last decision went by.
    decided_by: Standing,
}

/// What passed since the last decision.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Periods, at least one.
    pub periods: u32,
    /// Samples for which the cores have time in a period.
    pub most: f64,
    /// Samples of the time that it took to shed.
    pub shed: f64,
    /// Requests that came in over those that began, of all sources together.
    pub asked: f64,
}

/// Samples of all sources in a period: what was served, and what would have come without the gate.
/// Of that, what requests take before they first step aside.
#[derive(Debug, Default)]
struct Period {
    served: f64,
    offered: f64,
    light: f64,
}

impl Sources {
    /// Adds `samples` of CPU time of this part of a request from `prefix`.
    pub fn add(&mut self, prefix: u64, validated: bool, part: Part, samples: u32) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&prefix) {
            return;
        }
        self.known.entry(prefix).or_insert_with(Known::unseen).add(validated, part, samples.into());
    }

    /// Whether anything is shut out, or may be.
    pub fn is_active(&self) -> bool {
        self.decided > 0
    }

    /// Whether the last decision was made because heavy requests wait.
    pub fn cuts_heavy(&self) -> bool {
        self.decided_by == Standing::Continuations
    }

    /// The share of the CPU time asked for that `rules` let through.
    pub fn let_through(&self, rules: &Rules) -> f64 {
        let sum = |of: &dyn Fn(u64) -> f64| {
            self.known.iter().map(|(prefix, known)| known.offered() * of(*prefix)).sum::<f64>()
        };
        let all = sum(&|_| 1.0);
        if all > 0.0 { sum(&|prefix| rules.share(prefix)) / all } else { 1.0 }
    }

    /// The next rules. Since the last decision `in_force` held; `standing` and `passed` are what
    /// was seen. `scale` bounds the number of rules: 1 = the maximum.
    pub fn decide(&mut self, standing: Standing, passed: Passed, in_force: &Rules, scale: f64) -> Rules {
        if standing == Standing::None && !self.is_active() {
            self.forget();
            return Rules::OPEN;
        }
        let begins = !self.is_active();
        let period = self.advance(passed, in_force);
        // To shed a datagram takes less than to serve it takes beside its service.
        let used = (period.served + passed.shed / f64::from(passed.periods)).min(passed.most);
        let target = if begins { period.served } else { self.target };
        let fits = |offered: f64| offered < FITS * target;
        let mut rules = match standing {
            // The flood is over.
            Standing::None if fits(period.offered) => Rules::OPEN,
            _ => self.fill(standing, (target, used), in_force, scale),
        };
        // Heavy requests are no reason to cut any source, but light ones would soon wait again.
        if rules == Rules::OPEN && standing == Standing::Continuations && *in_force != rules && !fits(period.light) {
            let standing = if self.known.values().any(Known::refuses) { Standing::None } else { Standing::Fresh };
            rules = self.fill(standing, (target, used), in_force, scale);
        }
        if rules == Rules::OPEN {
            self.forget();
        }
        rules
    }

    /// Sets the target after `target`, of which `used` was used, and returns the rules that fill
    /// it.
    fn fill(&mut self, standing: Standing, (target, used): (f64, f64), in_force: &Rules, scale: f64) -> Rules {
        self.decided_by = standing;
        self.target = if standing == Standing::None {
            let (back, up) = if self.has_modest(in_force) { (MODEST_RETURN, MODEST_UP) } else { (RETURN, UP) };
            (target * up).max(back * self.capacity)
        } else {
            self.capacity = used.max(CAPACITY_KEPT * self.capacity);
            (DOWN * target.min(used)).max(LEAST * used)
        };
        self.rules(self.levels(self.target), in_force, scale)
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

    /// Forgets all prefixes but those validated of late.
    fn forget(&mut self) {
        (self.decided, self.capacity) = (0, 0.0);
        self.known.retain(|_, known| known.forget());
    }

    /// Ends the periods that `passed`.
    fn advance(&mut self, passed: Passed, in_force: &Rules) -> Period {
        let (periods, all) = (f64::from(passed.periods), passed.asked.clamp(1.0, 1.0 / SHARE_MIN));
        // When a queue begins to stand, all that is old in it is shed at once, also of sources that
        // were served before. So the first decision goes by what was served, and the second one
        // replaces what it knew.
        let (is_first, begins) = (self.decided == 0, self.decided <= 1);
        let mut period = Period::default();
        self.decided = self.decided.saturating_add(1);
        for (prefix, known) in &mut self.known {
            // Where one request in `asked` is served, chance decides of which source. So the period
            // weighs less.
            let asked = if is_first { 1.0 } else { known.asked(all) };
            let share = in_force.share(*prefix) / asked;
            let Counts { used, refused, first, .. } = known.advance(periods, share, begins);
            period.served += used / periods;
            period.offered += (used + refused) / periods / share;
            period.light += first / periods / share;
        }
        self.known.retain(|_, known| known.validated > 0 || known.offered() >= FORGOTTEN);
        period
    }

    /// The most that may come in from a prefix: from one that may be forged, and from a validated
    /// one. All together is `target`. All prefixes that may be forged count together, since their
    /// number says nothing.
    fn levels(&self, target: f64) -> [f64; 2] {
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
        // A source is not cut for its heavy requests alone. One that may be forged is, where others
        // are validated.
        if self.cuts_heavy() {
            let level = &mut levels[usize::from(!demands(true).is_empty())];
            *level = level.max(TYPICAL * self.median());
        }
        levels
    }

    /// The median offer of the validated sources, or of all where none is validated.
    fn median(&self) -> f64 {
        let of = |validated: bool| self.known.values().filter(move |known| (known.validated > 0) == validated);
        let is_any = of(true).next().is_some();
        let mut offered: Vec<_> = of(is_any).map(Known::offered).collect();
        let middle = offered.len() / 2;
        if offered.is_empty() { 0.0 } else { *offered.select_nth_unstable_by(middle, f64::total_cmp).1 }
    }

    fn rules(&self, levels: [f64; 2], in_force: &Rules, scale: f64) -> Rules {
        let most = |count: usize| (count as f64 * scale) as usize;
        let level = |known: &Known| levels[usize::from(known.validated > 0)];
        // What a source needs that asks for no more than others do: where heavy requests wait, all
        // that it asks for.
        let typical = if self.cuts_heavy() { 0.0 } else { TYPICAL * self.median() };
        let needed = |known: &Known| if known.offered() > typical { 1.0 } else { known.light() };
        let share = |known: &Known| (level(known) / (known.offered() * needed(known))).clamp(SHARE_MIN, 1.0);
        let (mut cut, mut whole): (Vec<_>, Vec<_>) = self.known.iter().partition(|(_, known)| share(known) < 1.0);
        // First those of which most is shut out.
        let excess = |known: &Known| known.offered() * (1.0 - share(known));
        // Those that do take too much, or did so before they were cut, and the others, which may
        // not.
        let is_sure = |prefix: u64, known: &Known| {
            in_force.share(prefix) < 1.0 || known.surely_offered() * needed(known) > level(known)
        };
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

/// The level at which demands, each with its weight, fill `target` (max-min fairness): none gets
/// more than the level times its weight. Infinite where all fit.
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
