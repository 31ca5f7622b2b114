//! Who may stop a server.

use std::sync::mpsc::{Receiver, Sender, channel};

/// Somebody wants the server to stop; the second request wants it at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct StopRequest;

/// Stops a server from any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    requests: Sender<StopRequest>,
}

impl StopHandle {
    pub(super) fn new() -> (StopHandle, Receiver<StopRequest>) {
        let (requests, receiver) = channel();
        (StopHandle { requests }, receiver)
    }

    /// Asks the server to stop: it finishes what it has received, for at most the drain timeout. Asked a second time, it
    /// ends at once. Does nothing to a server that has ended.
    pub fn stop(&self) {
        let _ = self.requests.send(StopRequest);
    }
}
