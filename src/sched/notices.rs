//! How a running job learns of fresh requests.

use crate::fate::labels;

labels! {
    /// How a running job learns that a fresh request waits, where its policy would have it step
    /// aside.
    Notices {
        /// As [`Notices::Ring`] where the kernel permits it, else as [`Notices::Looks`].
        Auto = "auto",
        /// The kernel raises a bit in memory that it shares with the worker: `io_uring`, Linux 6.1.
        Ring = "ring",
        /// The job looks into the sockets now and then.
        Looks = "looks",
    }
}
