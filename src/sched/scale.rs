//! The times that a server's policies use where no setting says otherwise, on the server's scale. The server, and whoever
//! predicts what it will do, make their policies here.

use super::{Hybrid, Kind, OnDemand, Shed, Steal};
use crate::time::Nanos;

/// How long a worker must have been in one job before thieves look into its socket, unscaled: longer than a light
/// request takes with its kernel part, shorter than anything worth waiting for.
const THIEF_THRESHOLD: Nanos = Nanos::from_micros(20);

/// How often a heavy request looks for fresh ones on a reserved worker under `hybrid`, unscaled: a
/// light request's time, and some times what a look costs.
const SHORT_SLICE: Nanos = Nanos::from_micros(1);

/// How often it does on the other workers, unscaled: so seldom that looking costs next to nothing.
const LONG_SLICE: Nanos = Nanos::from_micros(20);

/// How often a request comes to a point at which it can step aside under `ondemand`, unscaled.
const ASK_INTERVAL: Nanos = Nanos::from_micros(1);

/// How often somebody looks whether a request waits while all workers are busy, unscaled. One look frees one worker or a
/// few; with an interval of a microsecond, fewer than 14 busy workers must free at high load.
const LOOK_INTERVAL: Nanos = Nanos::new(250);

/// The factor on all these times.
#[derive(Clone, Copy, Debug)]
pub struct Scale(u64);

impl Scale {
    /// Everything lasts `factor` times as long as in reality.
    pub fn new(factor: u64) -> Scale {
        Scale(factor)
    }

    /// `steal`.
    pub fn steal(self) -> Kind {
        Kind::Steal(Steal { thief_threshold: THIEF_THRESHOLD.times(self.0) })
    }

    /// `shed`.
    pub fn shed(self) -> Kind {
        Kind::Shed(Shed { thief_threshold: THIEF_THRESHOLD.times(self.0) })
    }

    /// `hybrid`; the budget is scaled already.
    pub fn hybrid(self, budget: Nanos, reserved: usize) -> Kind {
        let (short_slice, long_slice) = (SHORT_SLICE.times(self.0), LONG_SLICE.times(self.0));
        Kind::Hybrid(Hybrid { budget, reserved, short_slice, long_slice })
    }

    /// `ondemand`; the budget is scaled already.
    pub fn ondemand(self, budget: Nanos) -> Kind {
        Kind::OnDemand(OnDemand {
            budget,
            ask_interval: ASK_INTERVAL.times(self.0),
            look_interval: LOOK_INTERVAL.times(self.0),
        })
    }
}
