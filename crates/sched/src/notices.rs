//! `--notices`: how a running job learns of fresh requests.

use crate::fate::labels;

labels! {
    /// How a running job learns that a fresh request waits to which it should yield.
    Notices {
        /// Works as [`Notices::Ring`] if the kernel permits it, otherwise as [`Notices::Looks`].
        Auto = "auto",
        /// The kernel sets a bit in memory shared with the worker: `io_uring`, Linux 6.1.
        Ring = "ring",
        /// The job polls the sockets now and then.
        Looks = "looks",
    }
}
