//! Ctrl-C and SIGTERM. The first signal ends sending and reports the results so far; the second
//! ends the process.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process, or one of its runs, was asked to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    signalled: Arc<AtomicBool>,
    raised: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for the signals from now on.
    ///
    /// # Errors
    /// If the system refuses the signal handlers.
    pub fn listen() -> Result<Interrupt> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the handler that ends the process looks at the flag before the other
            // one raises it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.signalled))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.signalled)))
                .context("listening for signals")?;
        }
        Ok(interrupt)
    }

    /// The interrupt of a single run. A signal raises it too, and it can be raised alone.
    pub(crate) fn of_run(&self) -> Interrupt {
        Interrupt { signalled: Arc::clone(&self.signalled), raised: Arc::default() }
    }

    /// Stops the run as a signal would.
    pub fn raise(&self) {
        // Ordering: no data comes with the flag.
        self.raised.store(true, Ordering::Relaxed);
    }

    /// True if a signal came, or this interrupt was raised.
    pub fn is_raised(&self) -> bool {
        // Ordering: no data comes with the flags.
        self.signalled.load(Ordering::Relaxed) || self.raised.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the end of one run leave the others alone, and a signal end them all?
    #[test]
    fn a_run_can_be_ended_alone() {
        let interrupt = Interrupt::default();
        let (first, second) = (interrupt.of_run(), interrupt.of_run());
        first.raise();
        assert!(first.is_raised() && !second.is_raised() && !interrupt.is_raised());
        interrupt.signalled.store(true, Ordering::Relaxed);
        assert!(second.is_raised() && interrupt.is_raised());
    }
}
