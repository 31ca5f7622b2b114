//! The length of one simulation.

use crate::lab::sim::Tally;

/// How long a simulation goes on: while `look` wants more. It is asked after the first `until_look` requests, and says how
/// many come before it is asked again.
pub(super) struct Length<'l> {
    /// Requests before any is measured.
    pub(super) warmup: u64,
    /// The most requests that are measured.
    pub(super) most: u64,
    pub(super) until_look: u64,
    pub(super) look: &'l mut dyn FnMut(&Tally) -> Option<u64>,
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
