//! How a worker waits when it has nothing to do.

use crate::time::Nanos;

/// How a worker waits when it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It looks again and again for a while, then sleeps.
    Adaptive,
    /// It never sleeps.
    Spin,
    /// It sleeps at once.
    Park,
}

impl Wait {
    /// How long a worker looks again and again before it sleeps.
    ///
    /// 50 us is the knee: a wake costs the sleeper 20 us and the waker 6, so shorter spinning saves little, and longer
    /// burns a core for packets that do not come.
    pub(super) fn spin_for(self) -> Nanos {
        match self {
            Wait::Adaptive => Nanos::from_micros(50),
            Wait::Spin => Nanos::MAX,
            Wait::Park => Nanos::ZERO,
        }
    }
}
