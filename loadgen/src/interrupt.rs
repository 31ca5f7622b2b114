//! Ctrl-C and SIGTERM: the first ends sending and reports what there is, the second ends the process.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody asked this process to stop.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
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
            // In this order: the handler that ends the process looks at the flag before the other one raises it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.raised))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.raised)))
                .context("listening for signals")?;
        }
        Ok(interrupt)
    }

    /// Stops the run as a signal would.
    pub fn raise(&self) {
        // Ordering: no data comes with the flag.
        self.raised.store(true, Ordering::Relaxed);
    }

    /// Whether a signal came.
    pub fn is_raised(&self) -> bool {
        // Ordering: no data comes with the flag.
        self.raised.load(Ordering::Relaxed)
    }
}
