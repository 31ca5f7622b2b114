//! `ondemand`: every worker receives; a heavy request runs until a fresh one waits that finds no free worker. Then one
//! worker for each that waits steps aside at its next checkpoint, serves what is fresh, and takes the heavy request
//! that began earliest. (With one worker for every eight the light ones wait for one another: in simulation, p99.9 of
//! extreme-bimodal at 0.97 on 64 workers doubles.)
//!
//! No size has to be chosen and no class known. What it needs is a cheap yield: stepping aside for a fresh request must
//! cost less than the request.

use super::fresh_first::{self, is_heavy};
use super::{
    Entry, Event, Kind, Made, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning, Verdict, Watch,
};
use crate::time::Nanos;

pub(super) const ENTRY: Entry = Entry {
    name: "ondemand",
    literature: Some("yield when somebody waits"),
    help: "heavy requests give way when a fresh one waits that finds no free worker",
    needs_class: false,
    shares_sockets: true,
    has_budget: true,
    sizes: Sizes::None,
    adapts: false,
    settings: &["slice", "notices"],
    make,
};

/// Longest time between two looks for waiting requests, of all workers together, unscaled: what a request may wait for
/// a heavy one to notice it, where the kernel gives no notice of it.
pub(super) const LOOK_AFTER: Nanos = Nanos::from_micros(10);

fn make(tuning: &Tuning) -> Made {
    let budget = tuning.budget;
    let kind = Kind::OnDemand(OnDemand { budget, look_after: tuning.scaled(LOOK_AFTER) });
    Made { budget: Some(budget), chosen: format!("budget {budget}"), ..Made::plain(&ENTRY, kind, tuning) }
}

/// The rules of `ondemand`.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDemand {
    /// CPU time after which a request counts as heavy and may be asked to step aside.
    pub budget: Nanos,
    /// Longest time between two looks for waiting requests, of all workers together.
    pub look_after: Nanos,
}

impl Rules for OnDemand {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        fresh_first::ORDER
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        fresh_first::place(pool, event)
    }

    fn ask_after(&self, _: &Topology, running: &Running) -> Option<Nanos> {
        fresh_first::ask_after(running, self.budget)
    }

    fn watch(&self, running: &Running) -> Watch {
        if is_heavy(running, self.budget) { Watch::Closely(self.look_after) } else { Watch::Never }
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        fresh_first::at_checkpoint(running, self.budget)
    }

    fn heavy_from(&self) -> Option<Nanos> {
        Some(self.budget)
    }

    fn watches(&self) -> bool {
        true
    }
}
