//! How a running job learns of fresh requests.

/// How a running job learns that a fresh request waits, where its policy would have it step aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notices {
    /// As [`Notices::Ring`] where the kernel permits it, else as [`Notices::Looks`].
    Auto,
    /// The kernel raises a bit in memory that it shares with the worker: `io_uring`, Linux 6.1.
    Ring,
    /// The job looks into the sockets now and then.
    Looks,
}

impl Notices {
    /// Every way, in the order in which help and error messages list them.
    pub const ALL: &[Notices] = &[Notices::Auto, Notices::Ring, Notices::Looks];

    /// The name in flags, files and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Notices::Auto => "auto",
            Notices::Ring => "ring",
            Notices::Looks => "looks",
        }
    }
}
