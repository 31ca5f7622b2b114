//! Which process has the sockets, and counts what the kernel drops at them.

use super::handover::Serving;
use super::stop::Demands;
use crate::server::admin::control::Control;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

impl<J> Control<'_, J> {
    /// Whether what waits in the sockets at the end is another process's to serve.
    pub(in crate::server) fn leaves_sockets(&self) -> bool {
        self.bound.listening.kept || self.is_handed_over()
    }

    pub(in crate::server) fn is_handed_over(&self) -> bool {
        // Ordering: relaxed, written under the lock of `drops` where it guards anything.
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Counts what the kernel drops from `counters` on, by socket; what is not among them from now on.
    pub(in crate::server) fn begin_drops(&self, counters: &[Option<u32>]) {
        self.drops.lock().unwrap_or_else(PoisonError::into_inner).begin_at(counters);
    }

    /// Leaves the sockets, and what waits in them, to a predecessor that serves on.
    pub(in crate::server) fn leave_to_predecessor(&self) {
        self.set_handed_over(true);
    }

    /// Gives what the kernel drops from now on to a successor to count, or takes it back. Returns the kernel's counters as
    /// of now, by socket.
    fn set_handed_over(&self, handed_over: bool) -> Vec<Option<u32>> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        if handed_over {
            // Where they cannot be read they are unknown, here and there.
            let _ = drops.read();
        }
        self.handed_over.store(handed_over, Ordering::Relaxed);
        drops.counters()
    }

    /// Datagrams that the kernel dropped at each socket; `None` where that cannot be read now.
    pub(in crate::server) fn dropped_by_socket(&self) -> Vec<Option<u64>> {
        let mut drops = self.drops.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_handed_over()
            && let Err(error) = drops.read()
        {
            self.drops_unread.call_once(|| {
                tracing::warn!(
                    %error,
                    "what the kernel drops at our sockets cannot be read: it is null on /latency and absent on /metrics"
                );
            });
        }
        drops.totals().collect()
    }
}

/// A server that may hand over, with the demands on it.
pub(in crate::server) struct HandingOver<'a, 'c, J> {
    pub(in crate::server) control: &'a Control<'c, J>,
    pub(in crate::server) demands: &'a mut Demands,
}

impl<J: Send> Serving for HandingOver<'_, '_, J> {
    fn pause(&self) -> Vec<Option<u32>> {
        self.control.shared.stop_receiving();
        self.control.set_handed_over(true)
    }

    fn resume(&self) {
        self.control.set_handed_over(false);
        self.control.shared.start_receiving();
        // The successor may have said that it is the one.
        self.control.bound.supervisor.main_process();
    }

    fn is_stopping(&mut self) -> bool {
        self.demands.has_stop()
    }
}
