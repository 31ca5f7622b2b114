//! Captures the log lines of a test.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use tracing::Dispatch;

struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panics with it").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A second subscriber. While there is only one, a thread without any that logs a line first makes
/// tracing drop that line on all threads.
static OTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(tracing_subscriber::registry()));

/// The log lines of this thread while `body` runs.
pub(super) fn logged(body: impl FnOnce()) -> String {
    LazyLock::force(&OTHER);
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&log);
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || Log(Arc::clone(&writer))).finish();
    tracing::subscriber::with_default(subscriber, body);
    let bytes = log.lock().expect("nobody panics with it").clone();
    String::from_utf8(bytes).expect("text")
}
