//! What becomes of settings when things change.

use super::judge::Judged;
use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::replayed::Replayed;
use super::scenario::Scenario;
use super::workers::{Look, Question, Settings};
use crate::lab::sim::Fleet;
use crate::lab::workload::{NoMoreLong, Shape, Workload};
use crate::sched::Sizes;
use crate::time::Nanos;

/// A possible change, and how the settings do then.
pub(crate) struct Change {
    pub(crate) what: String,
    pub(crate) judged: Judged,
}

/// A change to look at.
pub(crate) struct WhatIf<'a> {
    what: String,
    settings: Settings,
    rate: f64,
    /// Another workload, where that is what changes.
    workload: Option<Workload>,
    shape: Shape,
    /// How many servers are lost, where that is what changes.
    lost: Option<usize>,
    replayed: Option<&'a Replayed>,
}

/// Mean lengths of bursts, and of the times between them.
const BURSTS: [Nanos; 2] = [Nanos::from_millis(2), Nanos::from_millis(20)];
/// The most requests of a look: changes are shown with their figure, decided or not.
const MOST: u64 = 1_000_000;

impl<'a> Question<'a> {
    /// Changes to the demand of `chosen`, and to its sizes; the reason why a larger share of long requests is not among
    /// them. `long_from` is the cost from which a request is long where there is one class.
    pub(crate) fn what_ifs(
        &self,
        chosen: &Look,
        long_from: Option<Nanos>,
        replayed: Option<&'a Replayed>,
    ) -> (Vec<WhatIf<'a>>, Option<NoMoreLong>) {
        let same = |what: &str| WhatIf {
            what: what.to_owned(),
            settings: chosen.settings.clone(),
            rate: self.rate,
            workload: None,
            shape: Shape::Poisson,
            lost: None,
            replayed: None,
        };
        let mut all = vec![same("the rate as asked for")];
        if let Some(fleet) = self.scenario.fleet {
            for lost in [fleet.lost.checked_sub(1), Some(fleet.lost + 1)].into_iter().flatten() {
                if lost < fleet.servers {
                    all.push(WhatIf { lost: Some(lost), ..same(&servers_left(fleet.servers, lost)) });
                }
            }
        }
        for (what, factor) in [("20 % less load", 0.8), ("20 % more load", 1.2)] {
            all.push(WhatIf { rate: self.rate * factor, ..same(what) });
        }
        let more_long = self.scenario.workload.with_more_long(long_from);
        if let Ok(more) = &more_long {
            let workload = &more.workload;
            let what = times_the_long(more.factor);
            let load = self.load_at(self.rate, chosen.settings.workers);
            let workers = chosen.settings.workers * self.servers();
            let rates = [workload.rate_at(load, workers, 1), self.rate];
            for (at, rate) in ["at the same load", "at the same rate"].into_iter().zip(rates) {
                all.push(WhatIf { rate, workload: Some(workload.clone()), ..same(&format!("{what}, {at}")) });
            }
            all.push(WhatIf { shape: Shape::Clusters(long_from), ..same("long requests eight at a time") });
        }
        for mean in BURSTS {
            all.push(WhatIf { shape: Shape::Bursts(mean), ..same(&format!("bursts of {mean}")) });
        }
        if let Some(replayed) = replayed {
            all.push(WhatIf { replayed: Some(replayed), ..same("as recorded") });
        }
        if let Some([front, _]) = chosen.settings.sizes.as_deref() {
            let workers = chosen.settings.workers;
            for front in [front - 1, front + 1].into_iter().filter(|front| (1..workers).contains(front)) {
                let settings = Settings { sizes: Some(vec![front, workers - front]), ..chosen.settings.clone() };
                all.push(WhatIf { settings, ..same(&first_group(chosen.settings.spec, front)) });
            }
        }
        (all, more_long.err())
    }

    /// Looks at one change.
    pub(crate) fn look_at(&self, what_if: &WhatIf<'a>, progress: &dyn Progress) -> Change {
        let WhatIf { what, settings, rate, workload, shape, lost, replayed } = what_if;
        let workload = workload.as_ref().unwrap_or(self.scenario.workload);
        let load = workload.load_at(*rate, settings.workers * self.servers(), 1);
        let most = MOST.min(self.scenario.requests);
        let spec = settings.spec;
        let fleet = self.scenario.fleet.map(|fleet| Fleet { lost: lost.unwrap_or(fleet.lost), ..fleet });
        let scenario = Scenario { workload, fleet, shape: *shape, ..self.scenario_of(settings) };
        let judged = match replayed {
            Some(replayed) => {
                scenario.judge_recorded(spec, load, settings.sizes.as_deref(), &self.goal, replayed, progress)
            }
            None => scenario.judge(spec, load, settings.sizes.as_deref(), &self.goal, most, progress),
        };
        Change { what: what.clone(), judged }
    }
}

/// A change to a share of long requests that is `factor` times as large, in words.
fn times_the_long(factor: f64) -> String {
    let times = (factor * 100.0).round() / 100.0;
    let times = if times == 2.0 { "twice".to_owned() } else { format!("{times} x") };
    format!("{times} the share of long requests")
}

/// The servers that are left of a fleet, in words.
fn servers_left(servers: usize, lost: usize) -> String {
    if lost == 0 { format!("all {servers} servers") } else { format!("{} of {servers} servers", servers - lost) }
}

/// The role of `front` workers in the first group of a policy, in words.
fn first_group(spec: PolicySpec, front: usize) -> String {
    match spec.sizes() {
        Sizes::Pools => format!("{front} workers in the front pool"),
        _ => format!("reserved = {front}"),
    }
}

#[cfg(test)]
mod tests {
    // Does the text give the factor by which the share grows?
    #[test]
    fn a_factor_that_is_not_two_is_told() {
        let shown = [2.0, 1.9, 0.95 / 0.6].map(super::times_the_long);
        assert_eq!(shown.map(|text| text.replace(" the share of long requests", "")), ["twice", "1.9 x", "1.58 x"]);
    }
}
