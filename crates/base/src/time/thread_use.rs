//! What a thread has had of its processor.

use super::Nanos;

/// CPU time and waits of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadUse {
    /// CPU time of the thread.
    pub cpu: Nanos,
    /// Number of voluntary context switches: waits for something else than the processor.
    pub waits: i64,
}

impl ThreadUse {
    /// The most that the thread can have worked for since `before`; `None` where it has waited,
    /// which may have been its work's doing.
    pub fn worked_since(&self, before: &ThreadUse) -> Option<Nanos> {
        (self.waits == before.waits).then(|| self.cpu.minus(before.cpu))
    }
}
