//! Lets another group take work from this world in virtual time.

use super::VirtualWorld;
use super::contention::Serial;
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;

/// The number of any worker of another group. One number is enough, because they come one at a
/// time.
const VISITOR: WorkerId = WorkerId::MAX;

impl<J> VirtualWorld<J> {
    /// Jobs and datagrams that wait in sockets, queues and deques.
    pub fn waiting(&self) -> usize {
        self.held() + self.in_sockets
    }

    /// Jobs in queues and deques.
    pub(crate) fn held(&self) -> usize {
        self.in_deques + self.queues.count()
    }

    /// Whether any worker sleeps.
    pub(crate) fn has_sleepers(&self) -> bool {
        self.idle.roster.asleep().next().is_some()
    }

    /// Wakes the sleeper that is next in the order of waking, if any.
    pub(crate) fn wake_next(&mut self) {
        if let Some(worker) = self.idle.choose(0) {
            self.wake(worker);
        }
    }

    /// Gives another group a job, or names a socket with waiting datagrams. Also returns how long
    /// others delay the taker.
    pub(crate) fn give(&mut self, now: Nanos) -> Option<(Result<J, WorkerId>, Nanos)> {
        let (given, place) = match self.queues.pop_any() {
            Some((pool, job)) => (Ok(job), Some(Serial::Queue(pool))),
            None => match self.deques.iter_mut().find_map(|deque| deque.pop_front()) {
                Some(job) => {
                    self.in_deques -= 1;
                    (Ok(job), None)
                }
                None => {
                    let owner = self.sockets.iter().position(|socket| socket.datagrams > 0)?;
                    (Err(owner), Some(Serial::Socket(owner)))
                }
            },
        };
        if let Some(place) = place {
            self.contention.hold(place, VISITOR, now, 1);
        }
        Some((given, self.contention.take_delay()))
    }

    /// A worker of another group, whose world is `other`, has moved this many datagrams from the
    /// socket of `owner` into its own socket.
    pub(crate) fn moved(&mut self, owner: WorkerId, datagrams: usize, other: &mut VirtualWorld<J>) {
        self.sockets[owner].datagrams -= datagrams;
        self.in_sockets -= datagrams;
        other.sockets[other.me].datagrams += datagrams;
        other.in_sockets += datagrams;
    }
}
