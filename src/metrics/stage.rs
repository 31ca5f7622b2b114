//! The stages of a request's time in the server.

use crate::fate::labels;

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
