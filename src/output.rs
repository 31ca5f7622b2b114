//! Writes to standard output and standard error without ever panicking. Only [`print()`] waits for
//! a reader.
//!
//! `println!` and `eprintln!` panic if nothing can be written (a full disk), and block for ever on
//! a full pipe that nothing reads. [`print()`] returns an error instead, which the caller turns
//! into an exit code. Messages must not stop the service: log lines go through a bounded queue to a
//! thread, and lines without room are counted.
//!
//! ```
//! use forebay::output::{LogWriter, complain, flush_log, print};
//! use std::io::Write;
//!
//! let mut log = LogWriter::start()?; // a subscriber of `tracing` may write to it
//! log.write_all(b"begun\n")?;
//! flush_log();
//! if let Err(lost) = print("the result\n") {
//!     complain(&format!("the result is lost: {lost}"));
//! }
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::time::{Nanos, clock};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The most log lines that wait for standard error, far more than a server writes in a second.
const QUEUE_LINES: usize = 1_024;

/// How long an ending process waits for a standard error that accepts nothing.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// How often to check whether all log lines are written.
const LOOK_AGAIN: Nanos = Nanos::from_millis(1);

/// The style sheet of all HTML pages that Forebay makes.
#[cfg(feature = "admin")]
#[cfg_attr(doc, doc(hidden))]
pub const PAGE_STYLE: &str = include_str!("output/page.css");
/// The JavaScript that draws charts.
#[cfg(feature = "admin")]
#[cfg_attr(doc, doc(hidden))]
pub const PAGE_CHARTS: &str = include_str!("output/charts.js");

static LOG: OnceLock<LogWriter> = OnceLock::new();
// Ordering: relaxed, counts.
static LINES_QUEUED: AtomicU64 = AtomicU64::new(0);
static LINES_WRITTEN: AtomicU64 = AtomicU64::new(0);
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Writes a whole result to standard output.
///
/// # Errors
/// When not everything was written, for example because the reader has gone
/// ([`io::ErrorKind::BrokenPipe`]).
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// `text` with control characters escaped, except line ends and tabs. Text from files, the
/// environment or other hosts must not control a terminal.
pub fn plain(text: &str) -> String {
    let safe = |it: char| {
        if it.is_control() && it != '\n' && it != '\t' { it.escape_default().collect() } else { it.to_string() }
    };
    text.chars().map(safe).collect()
}

/// Writes `message`, made [`plain`], and a line end to standard error, after pending log lines.
/// Gives up after a second.
pub fn complain(message: &str) {
    flush_log();
    // A blocked write may never return, so another thread does it.
    let line = plain(message) + "\n";
    let _ = match LogWriter::start() {
        Ok(mut log) => log.write_all(line.as_bytes()),
        Err(_) => io::stderr().write_all(line.as_bytes()),
    };
    flush_log();
}

/// An I/O `error` of a failed write, with the text that `what` (a file or stream) cannot be
/// written.
pub fn unwritten(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} cannot be written: {error}"))
}

/// An I/O `error` of a failed start, with the text that `what` (a thread or process) cannot be
/// started, and which limits to check.
pub fn unstarted(what: &str, error: &io::Error) -> io::Error {
    let limits = "`ulimit -u`, `ulimit -v`, TasksMax of a systemd unit, pids.max of a cgroup";
    io::Error::new(error.kind(), format!("{what} cannot be started: {error}; see {limits}"))
}

/// The message to print if a result could not be written because of `error`. `None` for a closed
/// pipe, whose reader left on purpose.
pub fn loss(error: &io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::BrokenPipe).then(|| error.to_string())
}

/// A writer for log lines. Each call of `write` is one line and returns at once.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: SyncSender<Vec<u8>>,
}

impl LogWriter {
    /// The writer of this process. The first call starts the thread that writes to standard error.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start() -> io::Result<LogWriter> {
        if let Some(writer) = LOG.get() {
            return Ok(writer.clone());
        }
        let (queue, lines) = sync_channel(QUEUE_LINES);
        thread::Builder::new().name("forebay-log".into()).spawn(move || write_all(&lines))?;
        Ok(LOG.get_or_init(|| LogWriter { queue }).clone())
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let counter = if self.queue.try_send(line.to_vec()).is_ok() { &LINES_QUEUED } else { &LINES_LOST };
        counter.fetch_add(1, Ordering::Relaxed);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until all pending log lines are written, at most a second.
pub fn flush_log() {
    let (queued, deadline) = (LINES_QUEUED.load(Ordering::Relaxed), clock::now().plus(PATIENCE));
    while LINES_WRITTEN.load(Ordering::Relaxed) < queued && clock::now() < deadline {
        thread::sleep(LOOK_AGAIN.into());
    }
}

fn write_all(lines: &Receiver<Vec<u8>>) {
    for line in lines {
        // A line that cannot be written, say to a full disk, is lost: nowhere else to report it.
        let _ = io::stderr().write_all(&line);
        LINES_WRITTEN.fetch_add(1, Ordering::Relaxed);
        let lost = LINES_LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            // Goes through the queue, which has room now, to get the format of all other lines.
            tracing::warn!(lost, "log lines were lost: nobody read standard error");
        }
    }
}
