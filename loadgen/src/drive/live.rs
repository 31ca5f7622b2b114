//! Counters that sender, receiver and progress line share while a run lasts.

use forebay::time::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Beyond an hour.
const OCTAVES: usize = 32;

/// The progress of a run. Figures read while it lasts may be a moment old.
#[derive(Debug, Default)]
pub(crate) struct Live {
    sent: AtomicU64,
    unsendable: AtomicU64,
    replied: AtomicU64,
    port_refused: AtomicBool,
    sending_is_over: AtomicBool,
    /// Latencies by octave of microseconds, and by its halves.
    latencies: [[AtomicU64; 2]; OCTAVES],
}

impl Live {
    /// Requests attempted so far.
    pub(crate) fn sent(&self) -> u64 {
        // Ordering: a figure for display; `outstanding` has what it needs from `sending_is_over`.
        self.sent.load(Ordering::Relaxed)
    }

    /// Requests that our kernel has taken so far.
    pub(crate) fn taken(&self) -> u64 {
        // Ordering: a request is counted as sent before it may be counted as refused; read the other way round.
        let unsendable = self.unsendable.load(Ordering::Relaxed);
        self.sent().saturating_sub(unsendable)
    }

    /// Requests that have had their first reply so far.
    pub(crate) fn replied(&self) -> u64 {
        // Ordering: an independent figure for display.
        self.replied.load(Ordering::Relaxed)
    }

    /// Requests that could still be replied to, or `None` while more are being sent.
    pub(crate) fn outstanding(&self) -> Option<u64> {
        // Ordering: Acquire pairs with the Release in `finish_sending`: with it come the sender's final counts, without
        // it the receiver could stop before the last replies.
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

    /// Counts a request that has had its first reply, `latency` after it should have been sent.
    pub(crate) fn count_replied(&self, latency: Nanos) {
        let us = (latency.get() / 1_000).clamp(1, (1 << OCTAVES) - 1);
        let octave = us.ilog2();
        let is_upper_half = 2 * us >= 3 << octave;
        // Ordering: read by the same thread, or for display.
        self.latencies[octave as usize][usize::from(is_upper_half)].fetch_add(1, Ordering::Relaxed);
        self.replied.fetch_add(1, Ordering::Relaxed);
    }

    /// The latency that the share `share` of the replies so far is below, up to a half more; 0 before the first.
    pub(crate) fn latency(&self, share: f64) -> Nanos {
        // Ordering: figures for display.
        let counts: Vec<u64> = self.latencies.iter().flatten().map(|count| count.load(Ordering::Relaxed)).collect();
        let wanted = share * counts.iter().sum::<u64>() as f64;
        let mut below = 0;
        let found = counts.iter().position(|count| {
            below += count;
            *count > 0 && below as f64 >= wanted
        });
        // The lower end: 2^n us, or half of that more.
        found.map_or(Nanos::ZERO, |place| Nanos::new((1_000 << (place / 2)) * (2 + place as u64 % 2) / 2))
    }

    /// Notes that no server has the port, as the target's host says.
    pub(crate) fn note_refusal(&self) {
        // Ordering: no data comes with the flag.
        self.port_refused.store(true, Ordering::Relaxed);
    }

    /// Whether the target's host has said that no server has the port, and no reply has come.
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
