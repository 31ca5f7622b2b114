//! Where the time of one answered request went, by stage.

use crate::fate::labels;
use crate::time::Nanos;

labels! {
    /// A part of the time between the kernel's receive stamp and the reply in the kernel's hands, or all of it.
    Stage {
        /// The whole time in the server.
        Total = "total",
        /// Waiting in the socket.
        Kernel = "kernel",
        /// Waiting in the server's queues.
        Queue = "queue",
        /// Running in the handler.
        Service = "service",
        /// From the finish until the kernel has the reply: batching and the system call.
        Send = "send",
    }
}

/// Where the time of one answered request went. The total is the sum of the four stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The class of the request; numbers from [`CLASSES`](crate::fate::CLASSES) on count as the last class.
    pub class: u8,
    /// Time from the kernel's receive stamp to the batch that received the request.
    pub kernel: Nanos,
    /// Time from the receiving batch to the finish, less the service time.
    pub queue: Nanos,
    /// Time in the handler.
    pub service: Nanos,
    /// Time from the finish until the kernel has the reply.
    pub send: Nanos,
}

impl Sample {
    /// Time from the kernel's receive stamp until the kernel has the reply.
    pub const fn total(&self) -> Nanos {
        self.kernel.plus(self.queue).plus(self.service).plus(self.send)
    }

    /// Slowdown (total time over service time) in thousandths; a service time too short for the clock counts as one
    /// nanosecond.
    pub(super) const fn slowdown_thousandths(&self) -> u64 {
        let service = self.service.get();
        self.total().times(SLOWDOWN_ONE).get() / if service > 0 { service } else { 1 }
    }
}

/// A slowdown of 1 as stored in histograms: thousandths keep three digits at the low end.
pub(super) const SLOWDOWN_ONE: u64 = 1_000;
