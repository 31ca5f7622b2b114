//! Pages from the flight recorders. `GET /slow` names culprits of delays. `GET /capture` returns
//! the arrivals of some seconds as a trace, which `loadgen` can replay.

use crate::config::{Burn, Config};
use crate::emulation::overheads::Overheads;
use crate::fate::CLASSES;
use crate::metrics::{Capture, Captured, Ended, Gauges, History, Slow};
use crate::server::admin::Desk;
use crate::time::{Nanos, clock};
use forebay_base::trace::{Trace, TraceRequest};
use serde_json::Value;
use std::fmt::Write as _;
use tokio::sync::oneshot;
use tokio::task::yield_now;

/// Number of requests that are written before the thread does other work; they take about a
/// millisecond.
const WRITTEN_AT_ONCE: usize = 1_000;

/// The most requests of each kind on `GET /slow`.
const SHOWN: usize = 32;

/// What the control thread knows of slow requests and of the last minutes. Also the capture in
/// progress, with the client that waits for it.
#[derive(Default)]
pub(crate) struct Flight<'m> {
    slow: Slow,
    pub(super) history: History,
    pub(crate) capturing: Option<(Capture<'m>, oneshot::Sender<Captured>)>,
}

impl Desk<'_, '_> {
    /// The gauges of the server, completed by the sums of explained delays.
    pub(crate) fn gauges(&self) -> Gauges {
        Gauges { blocked: self.flight.slow.blocked.clone(), ..self.probe.gauges() }
    }

    /// Reads the workers' new records. Call it a few times a second.
    pub(crate) fn look(&mut self) {
        self.flight.slow.look(self.collector.metrics, self.probe.tick());
        if self.flight.history.is_due(self.collector) {
            let snapshot = self.snapshot();
            let blocked = self.flight.slow.interval();
            self.flight.history.keep(self.collector, &snapshot, &blocked);
        }
    }

    /// The body of `GET /slow`.
    pub(super) fn slow(&mut self) -> Value {
        self.look();
        let (waiting, sockets, names) = (self.probe.oldest(SHOWN), self.probe.unreceived(), self.gauges().class_names);
        let helpers = self.probe.helpers();
        self.flight.slow.report(self.collector.metrics, &waiting, &sockets, &helpers, &names.0, clock::now())
    }

    /// Begins a capture. Its end sends the result. `None` if a capture is in progress.
    pub(super) fn capture(&mut self, seconds: Nanos) -> Option<oneshot::Receiver<Captured>> {
        // If the client of the last capture has gone, that capture is over.
        if self.flight.capturing.as_ref().is_some_and(|(_, answer)| !answer.is_closed()) {
            return None;
        }
        self.flight.capturing = None;
        let (answer, captured) = oneshot::channel();
        let dropped = self.probe.kernel_dropped();
        let capture = Capture::begin(self.collector.metrics, seconds, dropped);
        self.flight.capturing = Some((capture, answer));
        Some(captured)
    }

    /// Reads the requests that were captured since the last call. Once the capture is over, sends
    /// the answer.
    pub(crate) fn look_at_capture(&mut self) {
        let probe = self.probe;
        let oldest = || probe.oldest(1).first().map(|unended| unended.about.came_at);
        let over = |(capture, answer): &mut (Capture<'_>, oneshot::Sender<_>)| {
            answer.is_closed() || capture.look(oldest, || probe.kernel_dropped())
        };
        if let Some((capture, answer)) = self.flight.capturing.take_if(over) {
            // If the connection is closed, no answer is needed.
            let _ = answer.send(capture.end());
        }
    }
}

/// The requests that a server with this `config` has `captured`, as the text of a trace. Comments
/// say what is left out.
pub(super) async fn to_text(captured: &Captured, config: &Config) -> String {
    let emulated = config.burn == Burn::Sleep;
    let header = Trace {
        time_scale: config.time_scale,
        emulated,
        overheads: if emulated { config.overheads } else { Overheads::NONE },
        // The cast is safe, because a server has at most 1,024 workers.
        workers: config.workers as u16,
        seed: 0,
        warmup: Nanos::ZERO,
        deadline: None,
        workload: "captured".to_owned(),
        left_out: captured.left_out(),
        requests: Vec::new(),
    };
    let mut text = format!("{captured}{header}");
    for some in captured.requests.chunks(WRITTEN_AT_ONCE) {
        for ended in some {
            let at = ended.came_at.minus(captured.from());
            let cost = Nanos::new((ended.service.get() / header.time_scale).max(1));
            let class = ended.class.min(CLASSES as u8 - 1);
            let Ended { flow, socket, source, .. } = *ended;
            let request = TraceRequest { intended: at, sent: at, cost, flow, socket, class, source };
            writeln!(text, "{request}").expect("a string takes everything");
        }
        yield_now().await;
    }
    text
}
