//! `ondemand`: every worker receives; a heavy request runs until a fresh one waits that finds no free worker. Then one
//! worker for each that waits steps aside at its next checkpoint, serves what is fresh, and takes the heavy request
//! that began earliest. (With one worker for every eight the light ones wait for one another: in simulation, p99.9 of
//! extreme-bimodal at 0.97 on 64 workers doubles.)
//!
//! No size has to be chosen and no class known. What it needs is a cheap yield: stepping aside for a fresh request must
//! cost less than the request.

use super::{
    Entry, Event, Kind, Made, Place, PoolId, Rules, Running, SearchPlace, Sizes, Topology, Tuning, Verdict, fresh_first,
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
    make,
};

/// Time between two points at which a request can step aside, unscaled.
const ASK_INTERVAL: Nanos = Nanos::from_micros(1);

/// Shortest time between two looks, of all workers together, whether a request waits while all are busy, unscaled. One
/// look frees one worker or a few; with an interval of a microsecond, fewer than 14 busy workers must free at high
/// load.
const LOOK_INTERVAL: Nanos = Nanos::new(250);

fn make(tuning: &Tuning) -> Made {
    let budget = tuning.budget;
    let (ask_interval, look_interval) = (tuning.scaled(ASK_INTERVAL), tuning.scaled(LOOK_INTERVAL));
    let kind = Kind::OnDemand(OnDemand { budget, ask_interval, look_interval });
    Made { budget: Some(budget), chosen: format!("budget {budget}"), ..Made::plain(&ENTRY, kind, tuning) }
}

/// The rules of `ondemand`.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDemand {
    /// CPU time after which a request counts as heavy and may be asked to step aside.
    pub budget: Nanos,
    /// Time between two points at which a request can step aside.
    pub ask_interval: Nanos,
    /// Shortest time between two looks, of all workers together, whether requests wait.
    pub look_interval: Nanos,
}

impl Rules for OnDemand {
    fn order(&self, _: PoolId) -> &'static [SearchPlace] {
        fresh_first::ORDER
    }

    fn place(&self, _: &Topology, pool: PoolId, event: Event) -> Place {
        fresh_first::place(pool, event)
    }

    fn ask_after(&self, _: &Topology, _: &Running) -> Option<Nanos> {
        // Light requests come to such points too: requests behind one must not wait until it turns out heavy.
        Some(self.ask_interval)
    }

    fn at_checkpoint(&self, _: &Topology, running: &Running) -> Verdict {
        fresh_first::at_checkpoint(running, self.budget)
    }

    fn heavy_from(&self) -> Option<Nanos> {
        Some(self.budget)
    }

    fn look_interval(&self) -> Option<Nanos> {
        Some(self.look_interval)
    }
}
