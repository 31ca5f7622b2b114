//! The search of a plan: short looks find what may hold the goal, long ones decide.
//!
//! A short look flatters, since queues begin empty. So the number of workers that it finds is a lower bound for a policy,
//! and policies are decided in the order of these bounds: the first that holds needs the fewest workers of all.

use super::judge::Verdict;
use super::parallel;
use super::policy_spec::PolicySpec;
use super::progress::Progress;
use super::scenario::Simulation;
use super::workers::{Found, Look, Question, Settings};

/// How one policy does.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The settings on the fewest workers with which the goal seems to hold or holds; if none does, those on the most
    /// workers.
    pub(crate) look: Look,
    /// Whether that seems to be so; it is where the verdict says so.
    pub(crate) seems: bool,
}

/// The outcome of a search.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// One answer for each policy, in their order.
    pub(crate) answers: Vec<Answer>,
    /// The number of the policy whose settings hold the goal on the fewest workers.
    pub(crate) chosen: Option<usize>,
    /// The best settings of that policy on one worker less, which do not hold it; `None` where the work alone forbids it.
    pub(crate) less: Option<Look>,
}

/// Near the edge a worker less may take many times the requests to tell: it gets this many times those of the settings
/// chosen, or of this number where they took less.
const LESS: u64 = 3;
const LESS_LEAST: u64 = 500_000;

/// The most requests of one look for the load that a policy seems to hold.
const HELD: u64 = 300_000;

/// The load that a policy seems to hold if it does not hold the one in question.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The settings on the most workers.
    pub(crate) settings: Settings,
    /// The highest load, to a hundredth, at which a short look holds; 0 for none.
    pub(crate) load: f64,
    /// The simulation next to idle, where there is none.
    pub(crate) idle: Option<Simulation>,
}

/// Settings of one policy and number of workers that are decided before more workers are considered.
const TRIED: usize = 3;

impl Question<'_> {
    /// Searches all of `policies`.
    pub(crate) fn search(&self, policies: &[PolicySpec], progress: &dyn Progress) -> Search {
        let least = *self.workers.start();
        let mut found = parallel::map(policies, |spec| self.seek(*spec, least, progress));
        let mut search = loop {
            let open = found.iter().filter(|found| found.seems).map(workers).min();
            let Some(fewest) = open else { break Search { answers: answers(found), chosen: None, less: None } };
            let tied: Vec<usize> =
                (0..found.len()).filter(|n| found[*n].seems && workers(&found[*n]) == fewest).collect();
            // The two best at once, one on each of two processors.
            let mut tied: Vec<_> = tied.into_iter().map(|n| (self.rank(&found[n].looks[0].judged), n)).collect();
            tied.sort_by(|one, other| one.0.0.cmp(&other.0.0).then(one.0.1.total_cmp(&other.0.1)));
            tied.truncate(2);
            let decided = parallel::map(&tied, |(_, n)| self.decided(&found[*n], progress));
            for ((_, n), decided) in tied.iter().zip(decided) {
                found[*n] = decided;
            }
            // What was sent on to more workers has had short looks only.
            let holding = tied.iter().map(|(_, n)| *n).filter(|n| workers(&found[*n]) == fewest && holds(&found[*n]));
            let best = holding.min_by(|one, other| {
                let rank = |n: &usize| self.rank(&found[*n].looks[0].judged).1;
                rank(one).total_cmp(&rank(other))
            });
            if let Some(best) = best {
                break Search { answers: answers(found), chosen: Some(best), less: None };
            }
        };
        self.descend(&mut search, progress);
        search
    }

    /// `found`, decided: its best settings that hold the goal first; or, where none does, what short looks say of more
    /// workers.
    fn decided(&self, found: &Found, progress: &dyn Progress) -> Found {
        let seeming = found.looks.iter().filter(|look| self.seems(&look.judged)).take(TRIED);
        let mut last = None;
        for look in seeming {
            let look = self.decide(&look.settings, self.scenario.requests, progress);
            if look.judged.verdict == Verdict::Holds {
                return Found { looks: vec![look], seems: true };
            }
            last = last.or(Some(look));
        }
        let Some(last) = last else { return Found { seems: false, ..found.clone() } };
        let (spec, workers) = (last.settings.spec, last.settings.workers);
        if workers == *self.workers.end() {
            return Found { looks: vec![last], seems: false };
        }
        self.seek(spec, workers + 1, progress)
    }

    /// The load that `spec` seems to hold on the most workers, by short looks, if it does not hold the one in question.
    pub(crate) fn held(&self, spec: PolicySpec, progress: &dyn Progress) -> Held {
        progress.looks_at(format!("the load that {spec} holds"));
        let workers = *self.workers.end();
        let settings = self.best_on(spec, workers, progress).looks.swap_remove(0).settings;
        let look = |hundredths: u32| {
            let load = f64::from(hundredths) / 100.0;
            let fitted = self.refitted(&settings, load);
            let rate = self.rate_at(load, workers);
            (self.judge(&fitted, rate, HELD, progress), fitted)
        };
        let (mut holds, mut fails, mut at) = (0, 100, None);
        while fails - holds > 1 {
            let middle = (holds + fails) / 2;
            let (judged, fitted) = look(middle);
            if self.seems(&judged) { (holds, at) = (middle, Some(fitted)) } else { fails = middle }
        }
        let idle = at.is_none().then(|| look(1).0.simulation);
        Held { settings: at.unwrap_or(settings), load: f64::from(holds) / 100.0, idle }
    }

    /// Makes sure that one worker less does not hold the goal under the policy chosen, or chooses that.
    fn descend(&self, search: &mut Search, progress: &dyn Progress) {
        let Some(chosen) = search.chosen else { return };
        loop {
            let settings = &search.answers[chosen].look.settings;
            let (spec, workers) = (settings.spec, settings.workers - 1);
            if workers < *self.workers.start() || self.load_at(self.planned_rate(), workers) >= 1.0 {
                return;
            }
            let found = self.best_on(spec, workers, progress);
            let most = LESS * search.answers[chosen].look.judged.requests.max(LESS_LEAST);
            let less = self.decide(&found.looks[0].settings, most.min(self.scenario.requests), progress);
            if less.judged.verdict != Verdict::Holds {
                search.less = Some(less);
                return;
            }
            search.answers[chosen] = Answer { look: less, seems: true };
        }
    }
}

fn workers(found: &Found) -> usize {
    found.looks[0].settings.workers
}

fn holds(found: &Found) -> bool {
    found.looks[0].judged.verdict == Verdict::Holds
}

fn answers(found: Vec<Found>) -> Vec<Answer> {
    let answer = |Found { mut looks, seems }: Found| Answer { look: looks.swap_remove(0), seems };
    found.into_iter().map(answer).collect()
}

#[cfg(test)]
mod tests;
