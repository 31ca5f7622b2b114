//! How a worker waits when it has nothing to do.

use crate::time::Nanos;

/// How a worker waits when it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// The worker spins for a while after the last packet, then sleeps.
    Adaptive,
    /// The worker never sleeps: the lowest latency for a whole core.
    Spin,
    /// The worker sleeps at once: the least CPU time.
    Park,
}

impl Wait {
    /// Every way, in the order in which help and error messages list them.
    pub const ALL: &[Wait] = &[Wait::Adaptive, Wait::Spin, Wait::Park];

    /// The name in flags, files and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Adaptive => "adaptive",
            Wait::Spin => "spin",
            Wait::Park => "park",
        }
    }

    /// How long a worker spins before it sleeps.
    ///
    /// 50 us is the knee. A wake costs the sleeper 20 us and the waker 6. So shorter spinning saves little, and longer
    /// spinning burns a core for packets that do not come.
    pub(crate) fn spin_for(self) -> Nanos {
        match self {
            Wait::Adaptive => Nanos::from_micros(50),
            Wait::Spin => Nanos::MAX,
            Wait::Park => Nanos::ZERO,
        }
    }
}
