//! Decides for the gate which share of each source's datagrams the kernel lets in under overload.
//! `sources/README.md` explains the rule and its constants.
//!
//! The words: a *sample* is 100 us of CPU time that a source used, and a *period* is 250 ms. A
//! source's *offer* is the number of samples per period that it would have without the gate. The
//! *target* is the number of samples per period that the gate admits in total. A *level* is the
//! most that it admits of one source.

use known::{Counts, Known};
use std::collections::BTreeMap;

mod controller;
mod known;

pub use controller::{Controller, DECIDE_EVERY, Sample, Seen};
pub use known::Part;

/// The share of datagrams to admit, by source prefix.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Prefixes all of whose datagrams are admitted; ascending.
    pub pass: Vec<u64>,
    /// Pairs of a prefix and the share of its datagrams that is admitted; prefixes ascend.
    pub limited: Vec<(u64, f64)>,
    /// The share admitted of all other prefixes.
    pub rest: f64,
}

/// Which queues are standing queues: queues that fill faster than they are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// There is no standing queue, or no request is shed from one.
    #[default]
    None,
    /// Only queues of continuations are standing queues.
    Continuations,
    /// At least one socket holds a standing queue.
    Fresh,
}

/// The most prefixes in [`Rules::pass`]. The kernel accepts a program with this many in 1 ms, and
/// the program still has room for [`LIMITED_MAX`] others.
pub const PASS_MAX: usize = 2_000;
/// The most prefixes in [`Rules::limited`]. A limited prefix takes as many instructions of the
/// filter as five that pass.
pub const LIMITED_MAX: usize = 120;
/// The smallest share that a source gets. It is above zero, so that the server still sees who
/// sends.
pub const SHARE_MIN: f64 = 0.02;
/// The most prefixes that are remembered, which take 6 MB. Further ones are ignored until some of
/// these are quiet and forgotten.
const KNOWN_MAX: usize = 1 << 16;
/// A source with a lower mean of samples per period is forgotten. A source that had a hundred
/// samples in a period is so four seconds later.
const FORGOTTEN: f64 = 0.25;
/// Factor on the target in each decision while there is a standing queue. The queue holds a few
/// percent of the work of one period, so a target lower by 5 % clears it in the next.
const DOWN: f64 = 0.95;
/// The least target while there is a standing queue, as a part of the samples that the cores
/// served.
const LEAST: f64 = 0.75;
/// The target while there is no standing queue is at least this part of the capacity.
const RETURN: f64 = 0.98;
/// The known capacity falls by at most 2 % in one decision. If a queue stood only at the start of a
/// period, the cores were idle at its end. So fewer served samples do not prove a lower capacity.
const CAPACITY_KEPT: f64 = 0.98;
/// Factor by which the target grows in each decision without a standing queue: 5 % take 1.5 s.
const UP: f64 = 1.01;
/// Unlimited sources get room for their heavy requests if they send more than this part of the
/// load. The target then follows [`MODEST_RETURN`] and [`MODEST_UP`].
const MODEST_FROM: f64 = 0.1;
/// These replace [`RETURN`] and [`UP`] if unlimited sources send much. With 95 % instead of 80 %,
/// heavy requests would wait for 30 of their service times, because a flood of light ones goes
/// first.
const MODEST_RETURN: f64 = 0.8;
const MODEST_UP: f64 = 1.000_5;
/// Weight of all unvalidated prefixes together, relative to all validated ones together. So
/// validated ones keep four fifths of the target.
const FORGED_WEIGHT: f64 = 0.25;
/// The part of the capacity that validated prefixes may always use, even at a low target. The other
/// fifth of the capacity clears the queue.
const VALIDATED_SHARE: f64 = 0.8;
/// A flood counts as over if all sources together offer less than this part of the target. While a
/// flood lasts, the offer seldom falls so low by chance.
const FITS: f64 = 0.8;
/// Sources that offer up to this multiple of the median are not limited for their heavy requests.
/// With a larger value, a hundred sources could take all capacity that the others leave.
const TYPICAL: f64 = 1.5;
/// Some sources exceed their level by less than the margin of error. They are not limited if their
/// excess, together, is below this part of the excess of the others. They are not always spared,
/// because a flood from forged addresses has many sources that each send little.
const SPARED: f64 = 0.1;
/// Two shares count as equal if neither is larger than this multiple of the other.
const ALIKE: f64 = 1.05;

impl Rules {
    /// Everything is admitted.
    pub const OPEN: Rules = Rules { pass: Vec::new(), limited: Vec::new(), rest: 1.0 };

    /// The share admitted of `prefix`.
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

/// The gate's measurements of all source prefixes. Unvalidated prefixes are recorded only while the
/// gate is active or there is a standing queue.
#[derive(Debug, Default)]
pub struct Sources {
    known: BTreeMap<u64, Known>,
    /// Samples per period that the gate admits.
    target: f64,
    /// Samples per period that the cores served while a queue stood.
    capacity: f64,
    /// Number of decisions since the gate became active; 0 while it is not.
    decided: u8,
    /// The standing queues at the last decision.
    decided_by: Standing,
}

/// Measurements since the last decision.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// Number of periods, at least one.
    pub periods: u32,
    /// Samples per period that the cores have time for, if all are busy.
    pub most: f64,
    /// Samples of the time that shedding took.
    pub shed: f64,
    /// Requests that arrived for each one that began, over all sources.
    pub asked: f64,
}

/// Samples of all sources per period: `served` ones, and `offered` ones, as if there were no gate.
/// `light` is the part of the offer that is used before requests first yield.
#[derive(Debug, Default)]
struct Period {
    served: f64,
    offered: f64,
    light: f64,
}

impl Sources {
    /// Adds `samples` of CPU time for this part of a request from `prefix`.
    pub fn add(&mut self, prefix: u64, validated: bool, part: Part, samples: u32) {
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&prefix) {
            return;
        }
        self.known.entry(prefix).or_insert_with(Known::unseen).add(validated, part, samples.into());
    }

    /// Whether the gate is in use: it limits sources now, or may in its next decision.
    pub fn is_active(&self) -> bool {
        self.decided > 0
    }

    /// Whether the last decision was made because heavy requests wait.
    pub fn cuts_heavy(&self) -> bool {
        self.decided_by == Standing::Continuations
    }

    /// The share of the requested CPU time that `rules` admit.
    pub fn let_through(&self, rules: &Rules) -> f64 {
        let sum = |of: &dyn Fn(u64) -> f64| {
            self.known.iter().map(|(prefix, known)| known.offered() * of(*prefix)).sum::<f64>()
        };
        let all = sum(&|_| 1.0);
        if all > 0.0 { sum(&|prefix| rules.share(prefix)) / all } else { 1.0 }
    }

    /// Decides the next rules. `in_force` are the rules since the last decision; `standing` and
    /// `passed` were measured under them. `scale` is the part of the maximal number of rules for
    /// which the kernel has memory.
    pub fn decide(&mut self, standing: Standing, passed: Passed, in_force: &Rules, scale: f64) -> Rules {
        if standing == Standing::None && !self.is_active() {
            self.forget();
            return Rules::OPEN;
        }
        let begins = !self.is_active();
        let period = self.advance(passed, in_force);
        // The estimate for shedding is too high: it takes less time than a served request takes
        // outside its handler. So the sum is at most what the cores have time for.
        let used = (period.served + passed.shed / f64::from(passed.periods)).min(passed.most);
        let target = if begins { period.served } else { self.target };
        let fits = |offered: f64| offered < FITS * target;
        let mut rules = match standing {
            // The flood is over.
            Standing::None if fits(period.offered) => Rules::OPEN,
            _ => self.fill(standing, target, used, in_force, scale),
        };
        // Waiting heavy requests alone are no reason to limit a source. But if the limits were
        // lifted now, light requests would soon wait again.
        if rules == Rules::OPEN && standing == Standing::Continuations && *in_force != rules && !fits(period.light) {
            let standing = if self.known.values().any(Known::refuses) { Standing::None } else { Standing::Fresh };
            rules = self.fill(standing, target, used, in_force, scale);
        }
        if rules == Rules::OPEN {
            self.forget();
        }
        rules
    }

    /// Sets the next target, and returns rules that admit this much. `target` was the last target,
    /// and `used` is how many samples the cores served under it.
    fn fill(&mut self, standing: Standing, target: f64, used: f64, in_force: &Rules, scale: f64) -> Rules {
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

    /// Whether unlimited sources send more than [`MODEST_FROM`] of the load.
    fn has_modest(&self, in_force: &Rules) -> bool {
        let (mut modest, mut all) = (0.0, 0.0);
        for (prefix, known) in &self.known {
            let share = in_force.share(*prefix);
            all += share * known.offered();
            modest += if share < 1.0 { 0.0 } else { known.offered() };
        }
        modest > MODEST_FROM * all
    }

    /// Forgets all prefixes except those validated recently.
    fn forget(&mut self) {
        (self.decided, self.capacity) = (0, 0.0);
        self.known.retain(|_, known| known.forget());
    }

    /// Ends the periods that `passed`, and returns their sums.
    fn advance(&mut self, passed: Passed, in_force: &Rules) -> Period {
        let (periods, all) = (f64::from(passed.periods), passed.asked.clamp(1.0, 1.0 / SHARE_MIN));
        // When a standing queue forms, all old requests in it are shed at once, also those of
        // sources that were served until then. So the first decision counts only served requests.
        // The second one replaces the averages of the first.
        let (is_first, begins) = (self.decided == 0, self.decided <= 1);
        let mut period = Period::default();
        self.decided = self.decided.saturating_add(1);
        for (prefix, known) in &mut self.known {
            // If only one request in `asked` is served, chance decides whose it is. So the share is
            // divided by `asked`, and the period counts less in the ratio of means.
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

    /// The levels of an unvalidated and of a validated prefix, so that all prefixes together use
    /// `target`. All unvalidated prefixes count as one demand, because an attacker may forge any
    /// number of them.
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
        // A typical source is not limited for heavy requests alone. Unvalidated sources are an
        // exception while there are validated ones.
        if self.cuts_heavy() {
            let level = &mut levels[usize::from(!demands(true).is_empty())];
            *level = level.max(TYPICAL * self.median());
        }
        levels
    }

    /// The median offer of validated sources, or of all sources if none is validated.
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
        // The part of a source's offer that must be admitted: all of it if the offer exceeds
        // `typical`, otherwise the part of [`Known::light`]. While only heavy requests wait,
        // `typical` is zero, so all of every offer counts.
        let typical = if self.cuts_heavy() { 0.0 } else { TYPICAL * self.median() };
        let needed = |known: &Known| if known.offered() > typical { 1.0 } else { known.light() };
        let share = |known: &Known| (level(known) / (known.offered() * needed(known))).clamp(SHARE_MIN, 1.0);
        let (mut cut, mut whole): (Vec<_>, Vec<_>) = self.known.iter().partition(|(_, known)| share(known) < 1.0);
        // The sources with the largest excess get rules of their own.
        let excess = |known: &Known| known.offered() * (1.0 - share(known));
        // `sure` are sources that surely exceed their level, or were limited already. `maybe` are
        // those that may exceed it by chance.
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
        // Validated prefixes without a rule of their own pass, because the common share `rest`
        // would be far too small for them.
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

/// Max-min fairness: the level at which the demands fill `target`, if each gets at most the level
/// times its weight. `demands` are pairs of a demand and its weight. Infinite if all demands fit.
fn level(demands: &mut [(f64, f64)], target: f64) -> f64 {
    demands.sort_by(|(one, weight), (other, others)| (one / weight).total_cmp(&(other / others)));
    let (mut left, mut weights) = (target, demands.iter().map(|(_, weight)| weight).sum::<f64>());
    for (offered, weight) in demands {
        // A rounding error must not limit the last demand.
        if *offered * weights > left * *weight * (1.0 + 1e-9) {
            return left / weights;
        }
        (left, weights) = (left - *offered, weights - *weight);
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests;
