//! `GET /capture`: what the server saw for some seconds, as a trace that `simulate` and `loadgen` replay.

use super::{Desk, Probe};
use crate::fate::CLASSES;
use crate::metrics::{Capture, Captured};
use crate::time::{Nanos, clock};
use crate::trace::{Trace, TraceRequest};
use std::fmt::Write as _;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// Requests that are written at once: a millisecond. Then the thread's other work has its turn.
const WRITTEN_AT_ONCE: usize = 1_000;

/// A capture under way, and who waits for it.
pub(super) struct Capturing<'m> {
    capture: Capture<'m>,
    answer: oneshot::Sender<Seen>,
}

/// What a capture saw, and the server that saw it, as a trace without requests.
pub(super) struct Seen {
    captured: Captured,
    server: Trace,
}

impl Desk<'_, '_> {
    /// Begins a capture; `None` while there is one.
    pub(super) fn capture(&mut self, seconds: Nanos) -> Option<oneshot::Receiver<Seen>> {
        // Of a client that has gone the capture is over.
        if self.capturing.as_ref().is_some_and(|capturing| !capturing.answer.is_closed()) {
            return None;
        }
        *self.capturing = None;
        let (answer, seen) = oneshot::channel();
        let dropped = self.probe.kernel_dropped();
        let capture = Capture::begin(self.collector.metrics, seconds, dropped, clock::now);
        *self.capturing = Some(Capturing { capture, answer });
        Some(seen)
    }
}

/// Reads what was captured since the last look; answers when it is over.
pub(super) fn look(capturing: &mut Option<Capturing<'_>>, probe: &dyn Probe) {
    let oldest = || probe.oldest(1).first().map(|(about, _)| about.came_at);
    let over = |one: &mut Capturing<'_>| {
        one.answer.is_closed() || one.capture.look(oldest, || probe.kernel_dropped(), clock::now())
    };
    if let Some(Capturing { capture, answer }) = capturing.take_if(over) {
        // A closed connection needs no answer.
        let _ = answer.send(Seen { captured: capture.end(), server: probe.described() });
    }
}

impl Seen {
    /// The trace as text, with an account of what it leaves out.
    pub(super) async fn to_text(&self) -> String {
        let header = Trace { left_out: self.captured.left_out(), ..self.server.clone() };
        let mut text = format!("{}{header}", self.captured);
        for some in self.captured.requests().chunks(WRITTEN_AT_ONCE) {
            for (ended, flow) in some {
                let at = ended.came_at.minus(self.captured.from());
                let cost = Nanos::new((ended.service.get() / header.time_scale).max(1));
                let class = ended.class.min(CLASSES as u8 - 1);
                let request = TraceRequest { intended: at, sent: at, cost, flow: *flow, socket: ended.socket, class };
                writeln!(text, "{request}").expect("a string takes everything");
            }
            yield_now().await;
        }
        text
    }
}
