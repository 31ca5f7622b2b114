//! Counters that sender, receiver and progress line share while a run lasts.

use forebay::time::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a run. Figures read while it lasts may be a moment old.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sent: AtomicU64,
    unsendable: AtomicU64,
    replied: AtomicU64,
    lost: AtomicU64,
    port_refused: AtomicBool,
    sending_is_over: AtomicBool,
    is_enough: AtomicBool,
    /// Nanoseconds that each request took, if anybody asked for them; `u64::MAX` before its answer.
    latencies: Vec<AtomicU64>,
    /// How many answered requests took about this long: see [`bin`].
    bins: Vec<AtomicU64>,
}

/// Bins for each doubling of a latency, so that one is known within an eighth.
const BINS: u64 = 8;
/// The bins of all latencies.
const ALL_BINS: usize = 496;

/// The bin of a latency.
fn bin(took: Nanos) -> usize {
    let nanos = took.get().max(BINS);
    let doubled = nanos.ilog2() - BINS.ilog2();
    (u64::from(doubled) * BINS + (nanos >> doubled)) as usize - BINS as usize
}

/// The shortest latency of a bin.
fn shortest(bin: usize) -> Nanos {
    let bin = bin as u64;
    Nanos::new((BINS + bin % BINS) << (bin / BINS))
}

impl Live {
    /// Counters that know percentiles, and also keep the latencies of this many requests.
    pub(crate) fn of(requests: usize) -> Live {
        let latencies = std::iter::repeat_with(|| AtomicU64::new(u64::MAX)).take(requests).collect();
        let bins = std::iter::repeat_with(AtomicU64::default).take(ALL_BINS).collect();
        Live { latencies, bins, ..Live::default() }
    }

    /// The sums of `lives`, at this moment.
    pub(crate) fn sum<'a>(lives: impl Iterator<Item = &'a Live>) -> Live {
        let sum = Live::of(0);
        for live in lives {
            // Ordering: figures for display.
            sum.counts().zip(live.counts()).for_each(|(to, of)| {
                to.fetch_add(of.load(Ordering::Relaxed), Ordering::Relaxed);
            });
            sum.port_refused.fetch_or(live.port_refused.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        sum
    }

    /// What adds up. As in `taken`, what was not sent is read before what was.
    fn counts(&self) -> impl Iterator<Item = &AtomicU64> {
        [&self.unsendable, &self.sent, &self.replied, &self.lost].into_iter().chain(&self.bins)
    }

    /// Notes the latency of request `id`, which is answered.
    pub(crate) fn note_latency(&self, id: usize, took: Nanos) {
        if let Some(bin) = self.bins.get(bin(took)) {
            // Ordering: a figure for display.
            bin.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(latency) = self.latencies.get(id) {
            // Ordering: one value, read a timeout later.
            latency.store(took.get(), Ordering::Relaxed);
        }
    }

    /// The latency of request `id`; `None` before its answer.
    pub(crate) fn latency(&self, id: usize) -> Option<Nanos> {
        // Ordering: as above.
        let took = self.latencies.get(id)?.load(Ordering::Relaxed);
        (took < u64::MAX).then_some(Nanos::new(took))
    }

    /// About this quantile of the answered requests so far; `None` before the first answer.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<Nanos> {
        // Ordering: figures for display.
        let counts: Vec<u64> = self.bins.iter().map(|bin| bin.load(Ordering::Relaxed)).collect();
        let mut left = (counts.iter().sum::<u64>() as f64 * quantile).ceil() as u64;
        counts
            .iter()
            .position(|count| {
                left = left.saturating_sub(*count);
                *count > 0 && left == 0
            })
            .map(shortest)
    }

    /// Ends sending; the replies to what was sent are awaited.
    pub(crate) fn end_sending(&self) {
        // Ordering: no data comes with the flag.
        self.is_enough.store(true, Ordering::Relaxed);
    }

    /// Whether no further request need be sent.
    pub(crate) fn is_enough(&self) -> bool {
        // Ordering: as above.
        self.is_enough.load(Ordering::Relaxed)
    }

    /// Requests attempted so far.
    pub(crate) fn sent(&self) -> u64 {
        // Ordering: a figure for display; `outstanding` has what it needs from `sending_is_over`.
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests that our kernel has taken so far.
    pub(crate) fn taken(&self) -> u64 {
        // Ordering: a request is counted as sent before it may be counted as refused; read the
        // other way round.
        let unsendable = self.unsendable.load(Ordering::Relaxed);
        self.sent().saturating_sub(unsendable)
    }

    /// Requests that have had their first reply so far.
    pub(crate) fn replied(&self) -> u64 {
        // Ordering: an independent figure for display.
        self.replied.load(Ordering::Relaxed)
    }

    /// Requests that may still get a reply, or `None` while more are being sent.
    pub(crate) fn outstanding(&self) -> Option<u64> {
        // Ordering: Acquire pairs with the Release in `finish_sending`: with it come the sender's
        // final counts, without it the receiver could stop before the last replies.
        if !self.sending_is_over.load(Ordering::Acquire) {
            return None;
        }
        Some(self.taken().saturating_sub(self.replied()))
    }

    /// Counts a request that the sender is about to send.
    pub(crate) fn count_sent(&self) {
        // Ordering: published by `finish_sending`.
        self.sent.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that the kernel did not take.
    pub(crate) fn count_unsendable(&self) {
        // Ordering: published by `finish_sending`.
        self.unsendable.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that has had its first reply.
    pub(crate) fn count_replied(&self) {
        // Ordering: read by the same thread, or for display.
        self.replied.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests without a reply in time so far.
    pub(crate) fn lost(&self) -> u64 {
        // Ordering: a figure for display.
        self.lost.load(Ordering::Relaxed)
    }

    /// Notes how many requests had no reply in time.
    pub(crate) fn note_lost(&self, lost: u64) {
        // Ordering: as above.
        self.lost.store(lost, Ordering::Relaxed);
    }

    /// Notes that the target's host reports that no server has the port.
    pub(crate) fn note_refusal(&self) {
        // Ordering: no data comes with the flag.
        self.port_refused.store(true, Ordering::Relaxed);
    }

    /// Whether the target's host reported that no server has the port, and no reply has come.
    pub(crate) fn is_refused(&self) -> bool {
        // Ordering: as above.
        self.port_refused.load(Ordering::Relaxed) && self.replied() == 0
    }

    /// Marks the end of sending.
    pub(crate) fn finish_sending(&self) {
        // Ordering: Release publishes the counts above to every thread that sees the flag.
        self.sending_is_over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each latency in a bin, at most an eighth above its shortest one, and a percentile the one
    // of its bin?
    #[test]
    fn latencies_are_known_within_an_eighth() {
        for nanos in [0, 7, 8, 9, 1_000, 123_456_789, u64::MAX / 2, u64::MAX] {
            let (took, bin) = (Nanos::new(nanos), bin(Nanos::new(nanos)));
            let low = shortest(bin).get();
            assert!(
                bin < ALL_BINS && (took.get() < BINS || low <= nanos && nanos - low <= low / BINS),
                "{nanos}: {low}"
            );
        }
        let live = Live::of(0);
        assert_eq!(live.quantile(0.5), None);
        (1..=100).for_each(|ms| live.note_latency(0, Nanos::from_millis(ms)));
        let ms = [0.5, 0.99].map(|quantile| live.quantile(quantile).map(|took| took.get() / 1_000_000));
        assert_eq!(ms, [Some(46), Some(92)]);
    }
}
