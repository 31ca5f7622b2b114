//! The stages of a request's time in the server.

/// A part of the time between the kernel's receive stamp and the reply in the kernel's hands, or all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// All of it.
    Total,
    /// Waiting in the socket.
    Kernel,
    /// Waiting in our queues.
    Queue,
    /// In the handler.
    Service,
    /// From the finish to the reply in the kernel's hands: batching and the system call.
    Send,
}

impl Stage {
    /// Every stage, in the order of their numbers.
    pub const ALL: [Stage; 5] = [Stage::Total, Stage::Kernel, Stage::Queue, Stage::Service, Stage::Send];

    /// The name used in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Total => "total",
            Stage::Kernel => "kernel",
            Stage::Queue => "queue",
            Stage::Service => "service",
            Stage::Send => "send",
        }
    }
}
