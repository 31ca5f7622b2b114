//! The length of one simulation, and what came of it.

use crate::lab::sim::{ArrivingRequest, Fleet, OpenLoop, Setup, Tally, simulate_while};
use crate::sched::Made;

/// How long a simulation goes on: while `look` wants more, which is asked after the first `until_look` requests and says
/// how many come before it is asked again.
pub(super) struct Length<'l> {
    /// Requests before any is measured.
    pub(super) warmup: u64,
    /// The most requests that are measured.
    pub(super) most: u64,
    pub(super) until_look: u64,
    pub(super) look: &'l mut dyn FnMut(&Tally) -> Option<u64>,
}

/// What came of a policy.
pub(super) struct Served {
    /// The options in words.
    pub(super) chosen: String,
    /// The bound of one server.
    pub(super) unstable_from: Option<f64>,
    pub(super) tally: Tally,
    /// The load of the busiest server of a fleet.
    pub(super) busiest: Option<f64>,
}

impl Served {
    pub(super) fn by(
        (made, setup): (Made, Setup),
        incoming: impl Iterator<Item = ArrivingRequest>,
        length: Length<'_>,
    ) -> Served {
        let Made { chosen, unstable_from, .. } = made;
        let tally = simulate_while(&setup, incoming, length.until_look, length.look);
        Served { chosen, unstable_from, tally, busiest: None }
    }

    /// By servers of a fleet, each like that.
    pub(super) fn by_fleet(
        fleet: Fleet,
        (made, setup): (Made, Setup),
        offer: &OpenLoop<'_>,
        arrivals: impl Iterator<Item = (ArrivingRequest, u16)>,
        length: Length<'_>,
    ) -> Served {
        let Made { chosen, unstable_from, .. } = made;
        let came = fleet.simulate_while(&setup, offer, arrivals, length.until_look, length.look);
        let busiest = Some(came.busiest());
        Served { chosen, unstable_from, tally: came.tally, busiest }
    }
}

/// Simulates longer and longer runs from the start while `length` wants more: for what cannot be looked at half-way.
pub(super) fn again_while(length: &mut Length<'_>, simulate: impl Fn(u64, u64) -> Tally) -> Tally {
    let mut requests = length.until_look.saturating_sub(length.warmup).min(length.most);
    loop {
        let tally = simulate(length.warmup, requests);
        let Some(more) = (length.look)(&tally) else { return tally };
        requests += more;
    }
}
