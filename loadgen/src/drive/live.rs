//! Counters that sender, receiver and progress line share while a run lasts.

use forebay::time::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a run. Figures read while it lasts may be a moment old.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sent: AtomicU64,
    unsendable: AtomicU64,
    replied: AtomicU64,
    port_refused: AtomicBool,
    sending_is_over: AtomicBool,
    is_enough: AtomicBool,
    /// Nanoseconds that each request took, if anybody asked for them; `u64::MAX` before its answer.
    latencies: Vec<AtomicU64>,
}

impl Live {
    /// Counters that also keep the latencies of this many requests.
    pub(crate) fn of(requests: usize) -> Live {
        let latencies = std::iter::repeat_with(|| AtomicU64::new(u64::MAX)).take(requests).collect();
        Live { latencies, ..Live::default() }
    }

    /// Notes the latency of request `id`, which is answered.
    pub(crate) fn note_latency(&self, id: usize, took: Nanos) {
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
