//! What a worker does when it finds nothing: it looks again for a while, then sleeps. README.md argues why nothing is
//! forgotten meanwhile.

use super::idle::WATCH;
use super::search::Found;
use super::worker::Loop;
use super::{Engine, Shared};
use crate::time::{Nanos, clock};
use std::sync::atomic::Ordering;
use std::thread;

impl<J: Send> Loop<J> {
    /// Nothing to do: looks again for a while, then sleeps.
    pub(super) fn wait<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        let now = clock::now();
        let since = *self.idle_since.get_or_insert(now);
        if now.minus(since) < shared.wait.spin_for() && self.may_spin(shared) {
            std::hint::spin_loop();
            // Whoever else wants this processor - another worker, the load generator - has more use for it.
            thread::yield_now();
            return;
        }
        self.stop_spinning(shared);
        self.sleep(shared, engine);
    }

    fn sleep<E: Engine<Job = J>>(&mut self, shared: &Shared<J>, engine: &mut E) {
        if self.exposed && self.sleeps_on_own {
            shared.idle.cover(self.id());
            self.exposed = false;
        }
        let naps = self.woken_in_vain && self.policy.thief_threshold() > Nanos::ZERO;
        self.watches = shared.idle.announce(self.id(), naps);
        // The last look: whatever came before the announcement is found here, whatever comes after it wakes.
        let found = self.search(shared, engine);
        if matches!(found, Found::Nothing { contended: false }) && !shared.is_stopping() {
            engine.rest();
            let nap = (naps && self.watches).then(|| self.nap());
            self.doze(nap);
        }
        self.watches = shared.idle.withdraw(self.id());
        if let Found::Job(job) = found {
            self.execute(shared, engine, job);
        }
    }

    /// Sleeps until an event or until `nap` is over.
    fn doze(&mut self, nap: Option<Nanos>) {
        self.events.clear();
        match self.poll.poll(&mut self.events, nap.map(Into::into)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => panic!("a worker cannot wait: {error}"),
        }
        self.woken_in_vain = self.events.iter().any(|event| event.token() == WATCH);
        self.idle_since = None;
    }

    /// How long a watcher that was woken in vain sleeps without watching: until a victim that could not be robbed yet
    /// may be robbed. At least a millisecond, which bounds what such wakes cost to a few percent of a core.
    fn nap(&self) -> Nanos {
        self.policy.thief_threshold().max(Nanos::from_millis(1))
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
