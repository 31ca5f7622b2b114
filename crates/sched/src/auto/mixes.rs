//! Remembers mixes of requests that come back. Where mixes alternate, a decision for one of them is
//! late for the next. So once a mix has come back, `auto` decides for all recent mixes together.

use super::Decision;
use crate::tuning::Measured;
use arrayvec::ArrayVec;

/// The most mixes that are remembered: a service with more of them has no mix that lasts.
const MIXES_MAX: usize = 4;

/// A mix is forgotten after so many decisions for other mixes. There is one decision a second, and
/// what happens periodically often does so each minute.
const FORGOTTEN_AFTER: u64 = 300;

/// A mix counts beside others from so many decisions on. What was there for one second may be
/// chance.
const DECISIONS_MIN: u32 = 2;

/// The recent mixes of requests. The current one is last.
#[derive(Clone, Debug, Default)]
pub(super) struct Mixes {
    recent: ArrayVec<Mix, MIXES_MAX>,
    /// The decision for all recent mixes together, if the current one has come back.
    together: Option<Decision>,
    /// Number of decisions so far.
    decisions: u64,
}

/// A mix of requests. Mixes with like decisions count as one.
#[derive(Clone, Debug)]
struct Mix {
    /// The decision for this mix alone.
    decision: Decision,
    /// The last measurements of this mix.
    measured: Measured,
    /// The number of the last decision for this mix.
    last: u64,
    /// Number of decisions for this mix.
    decisions: u32,
    /// Whether another mix came between two of them.
    came_back: bool,
}

impl Mixes {
    /// Notes the current mix, and the decision for it alone. If it has come back, returns the
    /// decision of `judge` for all recent mixes together. This decision is made when a mix comes
    /// back or is forgotten, and stays until then.
    pub(super) fn note(
        &mut self,
        measured: &Measured,
        decision: &Decision,
        judge: impl Fn(&Measured) -> Decision,
    ) -> Option<&Decision> {
        self.decisions += 1;
        let (now, remembered) = (self.decisions, self.recent.len());
        self.recent.retain(|mix| now - mix.last <= FORGOTTEN_AFTER);
        let last = self.recent.len().checked_sub(1);
        let known = self.recent.iter().position(|mix| mix.decision.is_like(decision));
        // Without a shift, a decision that is new is one for the same mix.
        let known = known.or(last.filter(|_| !measured.has_shifted));
        let goes_on = known.is_some() && known == last;
        let came_back = known.is_some_and(|at| !goes_on || self.recent[at].came_back);
        let is_changed = !goes_on || self.recent.len() < remembered;
        let before = known.map_or(0, |at| self.recent[at].decisions);
        if known.is_some() || self.recent.is_full() {
            // Without `known`, the first one leaves: its last decision is the oldest.
            self.recent.remove(known.unwrap_or(0));
        }
        if is_changed {
            self.together = came_back.then(|| self.all_with(measured)).flatten().map(|all| judge(&all));
        }
        let (decision, measured) = (decision.clone(), measured.clone());
        self.recent.push(Mix { decision, measured, last: now, decisions: before + 1, came_back });
        self.together.as_ref()
    }

    /// The measurements of the other mixes and of `measured`, as if each mix had lasted equally
    /// long. Just after a shift, there is one second of the current mix and ten of another. `None`
    /// without another mix that lasted.
    fn all_with(&self, measured: &Measured) -> Option<Measured> {
        let others = self.recent.iter().filter(|mix| mix.decisions >= DECISIONS_MIN).map(|mix| &mix.measured);
        let longest = others.clone().map(Measured::span).fold(measured.span(), f64::max);
        // Without a time that was measured, the numbers stay as they are.
        let factor = |mix: &Measured| Some(longest / mix.span()).filter(|factor| factor.is_finite()).unwrap_or(1.0);
        let lasting = |mix: &Measured| mix.clone().stretched(factor(mix));
        let all = others.clone().fold(lasting(measured), |all, mix| all.with(&lasting(mix)));
        (others.count() > 0).then_some(all)
    }
}
