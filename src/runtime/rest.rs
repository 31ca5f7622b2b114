//! What a worker does when it finds nothing: it looks again for a while, then sleeps. README.md argues why nothing is
//! forgotten meanwhile.

use super::readiness::WATCH;
use super::search::Found;
use super::sleeper::{Rests, Sleeper, sleep};
use super::worker::Loop;
use super::{Engine, Shared};
use crate::sched::Policy;
use crate::time::{Nanos, clock};
use std::sync::atomic::Ordering;
use std::thread;

/// Looks of a worker that spins, between two offers of its processor to others. An offer costs the kernel twice the time of
/// a look, and a datagram that comes meanwhile waits for its end; so few looks hold nobody up for long.
const LOOKS_PER_YIELD: u32 = 8;

impl<J: Send> Loop<J> {
    /// Nothing to do: looks again for a while, then sleeps.
    pub(super) fn wait<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        self.idle_at = clock::now();
        let since = *self.idle_since.get_or_insert(self.idle_at);
        if self.idle_at.minus(since) < shared.wait.spin_for() && self.may_spin(shared) {
            std::hint::spin_loop();
            self.vain_looks = self.vain_looks.wrapping_add(1);
            if self.vain_looks.is_multiple_of(LOOKS_PER_YIELD) {
                // Whoever else wants this processor - another worker, the load generator - has more use for it.
                thread::yield_now();
            }
            return;
        }
        self.stop_spinning(shared);
        let found = sleep(&shared.idle, &mut Resting { worker: self, shared, engine });
        if let Some(Found::Job(job)) = found {
            self.execute(shared, engine, job);
        }
    }

    fn may_spin(&mut self, shared: &Shared<J>) -> bool {
        if !self.spins {
            // Ordering: relaxed, a count that bounds spinning and guards nothing.
            let others = shared.spinning.fetch_add(1, Ordering::Relaxed);
            if shared.wait.spin_for() < Nanos::MAX && others >= shared.spinners_max() {
                shared.spinning.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
            self.spins = true;
        }
        true
    }

    pub(super) fn stop_spinning(&mut self, shared: &Shared<J>) {
        if self.spins {
            // Ordering: relaxed, see `may_spin`.
            shared.spinning.fetch_sub(1, Ordering::Relaxed);
            self.spins = false;
        }
    }
}

/// A worker that is about to sleep.
struct Resting<'a, J, E> {
    worker: &'a mut Loop<J>,
    shared: &'a Shared<J>,
    engine: &'a mut E,
}

impl<J: Send, E: Engine<Job = J>> Rests for Resting<'_, J, E> {
    type Found = Found<J>;

    fn sleeper(&mut self) -> &mut Sleeper {
        &mut self.worker.sleeper
    }

    fn last_look(&mut self) -> Option<Found<J>> {
        let found = self.worker.search(self.shared, self.engine);
        let nothing = matches!(found, Found::Nothing { contended: false }) && !self.shared.is_stopping();
        (!nothing).then_some(found)
    }

    fn doze(&mut self, naps: bool) -> bool {
        self.engine.rest();
        let Loop { poll, events, policy, .. } = &mut *self.worker;
        events.clear();
        match poll.poll(events, naps.then(|| nap(policy).into())) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("a worker cannot wait: {error}"),
        }
        self.worker.idle_since = None;
        self.worker.idle_at = clock::now();
        self.worker.events.iter().any(|event| event.token() == WATCH)
    }
}

/// How long a watcher that was woken in vain sleeps without watching: until a victim that could not be robbed yet may be
/// robbed. At least a millisecond, which bounds what such wakes cost to a few percent of a core.
fn nap(policy: &Policy) -> Nanos {
    policy.thief_threshold().max(Nanos::from_millis(1))
}
