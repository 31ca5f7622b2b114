//! How running jobs notice arrivals in virtual time: by notices of the kernel, or by looks at the
//! watched sockets.

use super::VirtualWorld;
use super::contention::Serial;
use forebay_base::time::Nanos;
use forebay_sched::bounds::LOOK_MAX;
use forebay_sched::{Noticed, Watch, WorkerId};

/// The state of a worker's notice. When a datagram arrives, the kernel sets a bit for one worker.
/// The next checkpoint of that worker's job sees the bit (`runtime/notice`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Notice {
    /// The job does not wait for a notice.
    #[default]
    Off,
    /// The job waits for a notice.
    Armed,
    /// A datagram has arrived since then, and the bit is set.
    Raised,
}

/// Pauses of a running job that change nothing while nothing arrives. The driver skips them.
#[derive(Clone, Copy, Debug)]
pub struct VainPauses {
    /// When the first pause is.
    pub(crate) first: Nanos,
    /// The time between two pauses, in which the job runs.
    pub(crate) period: Nanos,
}

impl<J> VirtualWorld<J> {
    /// The pauses of this worker's job that change nothing, if the job watches as `watch` says. The
    /// first is at `first`. Returns the shortest time between two pauses, and when they end.
    pub(crate) fn vain_pauses(&self, watch: Watch, first: Nanos) -> Option<(Nanos, Nanos)> {
        if self.flags[self.me].get() {
            return None;
        }
        match watch {
            Watch::Never => None,
            Watch::Every(slice) => Some((Nanos::new(1), self.looked_rarely_at[self.me].plus(slice))),
            Watch::Looks => {
                // Another worker has looked for all workers, so this one looks only after the
                // interval.
                let passed = self.now.minus(self.looked_at);
                let is_vain = first == self.now && passed < self.interval;
                is_vain.then(|| (self.interval.minus(passed), first.plus(Nanos::new(1))))
            }
            Watch::Notices => {
                let is_vain = self.notices[self.me] == Notice::Armed;
                is_vain.then_some((Nanos::new(1), Nanos::MAX))
            }
        }
    }

    /// Skips `count` pauses of this worker, from `first` on. The job runs for `period` before each
    /// pause.
    pub(crate) fn leave_out(&mut self, first: Nanos, period: Nanos, count: u64) {
        self.vain[self.me] = Some(VainPauses { first, period });
        self.event_list.set(self.me, first.plus(period.times(count)));
    }

    /// How many pauses of this worker were skipped until now, and their times.
    pub(crate) fn left_out(&mut self) -> Option<(u64, VainPauses)> {
        let vain = self.vain[self.me].take()?;
        Some((self.now.minus(vain.first).get() / vain.period.get(), vain))
    }

    /// Ends the skipping for `worker`, because its next pause matters.
    fn call(&mut self, worker: WorkerId) {
        let Some(VainPauses { first, period }) = self.vain[worker] else { return };
        let mut at = first.plus(period.times(self.now.minus(first).get().div_ceil(period.get())));
        // At one time, workers act in the order of their numbers, and arrivals come last. So if a
        // later worker has acted, this worker's pause at this time is over.
        if at == self.now && self.acted.0 == self.now && worker < self.acted.1 {
            at = at.plus(period);
        }
        if at < self.event_list.of(worker) {
            self.event_list.set(worker, at);
        }
    }

    /// Ends the skipping for workers that the last step asked to give way.
    pub(crate) fn call_flagged(&mut self) {
        if self.flagged.take() {
            for worker in 0..self.flags.len() {
                if self.flags[worker].get() {
                    self.call(worker);
                }
            }
        }
    }

    /// At most `most` watched sockets with waiting datagrams. The search begins after the socket
    /// that the last search named first, so all sockets take turns.
    pub(crate) fn seen(&mut self, most: usize) -> Noticed {
        if self.in_sockets == 0 {
            return Noticed::default();
        }
        let sockets = self.sockets.len();
        let owners = (self.looks_from..sockets).chain(0..self.looks_from);
        let waits = owners.filter(|owner| self.has_arrivals(*owner)).take(most);
        let noticed = Noticed::of(waits);
        if let Some(named) = noticed.first() {
            self.looks_from = (named + 1) % sockets;
            self.hold(Serial::WatchSet, 1);
        }
        noticed
    }

    pub(crate) fn has_arrivals(&self, owner: WorkerId) -> bool {
        self.sockets[owner].watched && self.sockets[owner].datagrams > 0
    }

    /// How long a job that notices arrivals by looks runs until the next look.
    pub(crate) fn until_look(&self) -> Nanos {
        self.interval.minus(self.now.minus(self.looked_at)).max(Nanos::new(1))
    }

    /// Prepares a slice of a job that waits for the kernel's notice. The job asks for the notice at
    /// its next checkpoint.
    pub(crate) fn watch_for_notice(&mut self) -> Nanos {
        // The kernel raises the mark at the next arrival, or at once if something waits.
        if self.notices[self.me] == Notice::Off {
            if self.in_sockets > 0 && (0..self.sockets.len()).any(|owner| self.has_arrivals(owner)) {
                self.notices[self.me] = Notice::Raised;
            } else {
                self.notices[self.me] = Notice::Armed;
                self.armed.push_back(self.me);
            }
        }
        Nanos::new(1)
    }

    /// The arrivals that the kernel's notice announces; `None` without a notice.
    pub(crate) fn notice(&mut self) -> Option<Noticed> {
        if self.notices[self.me] != Notice::Raised {
            return None;
        }
        self.notices[self.me] = Notice::Off;
        Some(self.seen(LOOK_MAX).by_kernel())
    }

    /// The arrivals that a look finds; `None` before the interval is over. One worker's look serves
    /// all.
    pub(crate) fn looked(&mut self, now: Nanos) -> Option<Noticed> {
        if now.minus(self.looked_at) < self.interval {
            return None;
        }
        self.looked_at = now;
        Some(self.seen(LOOK_MAX))
    }

    /// The arrivals that a job sees if it looks once in `slice`; `None` before the slice is over.
    pub(crate) fn noticed_rarely(&mut self, slice: Nanos, now: Nanos) -> Option<Noticed> {
        let looked_at = &mut self.looked_rarely_at[self.me];
        if now.minus(*looked_at) < slice {
            return None;
        }
        *looked_at = now;
        Some(self.seen(LOOK_MAX))
    }

    /// This worker no longer waits for notices.
    pub(crate) fn disarm(&mut self) {
        if self.notices[self.me] == Notice::Armed {
            self.notices[self.me] = Notice::Off;
            self.armed.retain(|worker| *worker != self.me);
        }
    }

    /// Gives notice of an arrival to the next worker that waits for one.
    pub(crate) fn notify(&mut self) {
        if let Some(worker) = self.armed.pop_front() {
            self.notices[worker] = Notice::Raised;
            self.call(worker);
        }
    }
}
