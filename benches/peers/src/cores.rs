//! Emulated cores for peers. At most this many threads of a peer burn at once, however many threads
//! it has.

use forebay::handler::builtin::Burner;
use forebay::inside::emulation;
use forebay::time::Nanos;
use std::sync::{Condvar, Mutex, PoisonError};

/// The free cores, each with the time at which it became free.
#[derive(Debug)]
pub(crate) struct Cores {
    free: Mutex<Vec<Nanos>>,
    freed: Condvar,
}

impl Cores {
    /// This many cores, all free.
    pub(crate) fn new(count: usize) -> Cores {
        Cores { free: Mutex::new(vec![Nanos::ZERO; count]), freed: Condvar::new() }
    }

    /// Takes the time `amount` on a core for a job that has been ready since `ready_at`. With
    /// `is_last` the job ends after that. Blocks this thread while no core is free and while the
    /// job runs. Returns the time at which the core becomes free: a job that continues is ready
    /// again since then.
    pub(crate) fn burn(&self, ready_at: Nanos, amount: Nanos, is_last: bool) -> Nanos {
        emulation::take_over(self.take());
        emulation::start(ready_at);
        if is_last {
            Burner::Sleep.burn_last(amount);
        } else {
            Burner::Sleep.burn(amount);
        }
        let until = emulation::busy_until();
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(until);
        self.freed.notify_one();
        until
    }

    /// Takes the core that has been free for longest; returns the time at which it became free.
    fn take(&self) -> Nanos {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| free.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let longest = (0..free.len()).min_by_key(|&core| free[core]).expect("one is free");
        free.swap_remove(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::time::clock;

    // Do eight jobs on two cores take four times the time of one, though eight threads run them?
    // Delays of sleeps must not add up.
    #[test]
    fn no_more_burn_at_once_than_there_are_cores() {
        let cores = Cores::new(2);
        let cost = Nanos::from_millis(20);
        let start = clock::now();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| cores.burn(start, cost, true));
            }
        });
        let took = clock::now().minus(start);
        assert!(took >= cost.times(4), "eight jobs of {cost} on two cores took {took}");
        let free = cores.free.into_inner().expect("no thread panicked");
        assert_eq!(free.len(), 2, "every core came back");
        let first = free.iter().min().expect("two cores").minus(start);
        assert!(free.iter().all(|core| core.minus(start) >= cost.times(3)), "a core served one job only: {first}");
    }
}
