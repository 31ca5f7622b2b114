//! `GET /capture`: what the server saw for some seconds, as a trace that `simulate` and `loadgen` replay. And files of what the
//! recorder holds, when requests are delayed or SIGUSR1 comes.

use super::{Desk, Probe};
use crate::fate::CLASSES;
use crate::metrics::{Capture, Captured};
use crate::time::{Nanos, clock};
use crate::trace::{Trace, TraceRequest};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};
use tokio::sync::oneshot;
use tokio::task::{spawn_blocking, yield_now};

/// Requests that are written at once: a millisecond. Then the thread's other work has its turn.
const WRITTEN_AT_ONCE: usize = 1_000;

/// Files of what the recorder holds. A new one replaces the oldest.
const FILES: usize = 8;
/// What one covers. A recorder holds seldom more.
const FILE_COVERS: Nanos = Nanos::from_secs(10);

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
        let capture = Capture::begin(self.collector.metrics, seconds, dropped);
        *self.capturing = Some(Capturing { capture, answer });
        Some(seen)
    }

    /// Writes what the recorder holds to a file, if a limit is `broken` or SIGUSR1 came.
    pub(super) fn write_trace(&self, broken: bool) {
        let asked = self.probe.take_trace_asked();
        match self.probe.trace_dir() {
            Some(folder) if broken || asked => {
                let trace = self.slow.to_trace(self.collector.metrics, FILE_COVERS, clock::now());
                // A disk may take long.
                spawn_blocking(move || match write_file(&folder, &trace) {
                    Ok(file) => tracing::info!(file = %file.display(), "a trace was written"),
                    Err(error) => tracing::warn!(%error, folder = %folder.display(), "a trace cannot be written"),
                });
            }
            None if asked => tracing::warn!("SIGUSR1: no trace is written without --trace-dir"),
            _ => {}
        }
    }
}

fn write_file(folder: &Path, trace: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let files = (0..FILES).map(|number| folder.join(format!("forebay-{number}.pftrace")));
    let written = |file: &PathBuf| fs::metadata(file).and_then(|about| about.modified()).ok();
    let oldest = files.min_by_key(written).expect("more than none");
    fs::write(&oldest, trace)?;
    Ok(oldest)
}

/// Reads what was captured since the last look; answers when it is over.
pub(super) fn look(capturing: &mut Option<Capturing<'_>>, probe: &dyn Probe) {
    let oldest = || probe.oldest(1).first().map(|(about, _)| about.came_at);
    let over = |one: &mut Capturing<'_>| one.answer.is_closed() || one.capture.look(oldest, || probe.kernel_dropped());
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
        for some in self.captured.requests.chunks(WRITTEN_AT_ONCE) {
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
