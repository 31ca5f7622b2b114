//! Progress of a study, for callers that display it.

/// Receives a study's progress, from every thread that simulates.
pub(crate) trait Progress: Sync {
    /// Reports that `requests` more have been simulated.
    fn simulated(&self, requests: u64);
    /// The current simulation: `pools on 14 workers`. Of several at once, the last to start.
    fn looks_at(&self, what: String);
}

/// Requests between two reports: some milliseconds of simulating.
const STEP: u64 = 1 << 14;

/// `requests`, reported to `progress` as they are taken.
pub(super) fn watched<I: Iterator>(requests: I, progress: &dyn Progress) -> impl Iterator<Item = I::Item> {
    let mut taken = 0_u64;
    requests.inspect(move |_| {
        taken += 1;
        if taken.is_multiple_of(STEP) {
            progress.simulated(STEP);
        }
    })
}

/// Shows nothing.
#[cfg(test)]
pub(crate) struct Silent;

#[cfg(test)]
impl Progress for Silent {
    fn simulated(&self, _requests: u64) {}
    fn looks_at(&self, _what: String) {}
}
