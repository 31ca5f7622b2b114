//! What becomes of settings when the demand changes.

use super::judge::Judged;
use super::progress::Progress;
use super::question::{Question, Settings};
use super::replayed::Replayed;
use super::scenario::Scenario;
use crate::lab::sim::Fleet;
use crate::lab::workload::Shape;
use crate::time::Nanos;

/// A possible change, and how the settings do then.
pub(crate) struct Change {
    pub(crate) what: String,
    pub(crate) judged: Judged,
}

/// A change to look at.
pub(crate) struct WhatIf<'a> {
    what: String,
    /// The factor on the rate.
    factor: f64,
    shape: Shape,
    fleet: Option<Fleet>,
    replayed: Option<&'a Replayed>,
}

/// Mean lengths of bursts, and of the times between them.
const BURSTS: [Nanos; 2] = [Nanos::from_millis(2), Nanos::from_millis(20)];
/// The most requests of a look: a change is shown with its figure, decided or not.
const MOST: u64 = 1_000_000;

impl<'a> Question<'a> {
    /// What may change.
    pub(crate) fn what_ifs(&self, replayed: Option<&'a Replayed>) -> Vec<WhatIf<'a>> {
        let fleet = self.scenario.fleet;
        let same = |what: String| WhatIf { what, factor: 1.0, shape: Shape::Poisson, fleet, replayed: None };
        let mut all = vec![same("the rate as asked for".to_owned())];
        if let Some(fleet) = fleet {
            let others = [fleet.lost.checked_sub(1), Some(fleet.lost + 1)].into_iter().flatten();
            all.extend(others.filter(|lost| *lost < fleet.servers).map(|lost| {
                let what = match lost {
                    0 => format!("all {} servers", fleet.servers),
                    _ => format!("{} of {} servers", fleet.servers - lost, fleet.servers),
                };
                WhatIf { fleet: Some(Fleet { lost, ..fleet }), ..same(what) }
            }));
        }
        let factors = [("20 % more load", 1.2), ("twice the load", 2.0)];
        all.extend(factors.map(|(what, factor)| WhatIf { factor, ..same(what.to_owned()) }));
        all.extend(BURSTS.map(|mean| WhatIf { shape: Shape::Bursts(mean), ..same(format!("bursts of {mean}")) }));
        all.extend(replayed.map(|run| WhatIf { replayed: Some(run), ..same("as recorded".to_owned()) }));
        all
    }

    /// How `settings` do after a change.
    pub(crate) fn change(&self, settings: &Settings, what_if: &WhatIf<'a>, progress: &dyn Progress) -> Change {
        let &WhatIf { ref what, factor, shape, fleet, replayed } = what_if;
        let Settings { spec, workers, sizes } = settings;
        let (load, sizes) = (self.load_at(self.rate * factor, *workers), sizes.as_deref());
        let scenario = Scenario { fleet, shape, ..self.scenario_on(*workers) };
        let most = MOST.min(scenario.requests);
        let judged = match replayed {
            Some(replayed) => scenario.judge_recorded(*spec, load, sizes, &self.goal, replayed, progress),
            None => scenario.judge(*spec, load, sizes, &self.goal, most, progress),
        };
        Change { what: what.clone(), judged }
    }
}
