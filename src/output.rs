//! Standard output and standard error. Nothing here panics, and only a result waits for its reader.
//!
//! `println!` and `eprintln!` panic if nothing can be written (a full disk), and block for ever on a full pipe that is not
//! read. A result that cannot be written is an error, which its caller turns into an exit code. Messages are worth less than
//! service. Log lines go through a bounded queue to a thread of their own, and are counted when there is no room.
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
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

/// The most log lines waiting for standard error: far more than a server writes in a second.
const QUEUE_LINES: usize = 1_024;

/// The longest wait of an ending process for a standard error that accepts nothing.
const PATIENCE: Nanos = Nanos::from_secs(1);

/// The interval of checking for room in a full queue.
const LOOK_AGAIN: Nanos = Nanos::from_millis(1);

/// The style sheet and the chart code of every page that Forebay makes.
#[cfg(feature = "admin")]
pub(crate) const PAGE_STYLE: &str = include_str!("output/page.css");
#[cfg(feature = "admin")]
pub(crate) const PAGE_CHARTS: &str = include_str!("output/charts.js");

static LOG: OnceLock<LogWriter> = OnceLock::new();
static LINES_LOST: AtomicU64 = AtomicU64::new(0);

/// Writes a whole result to standard output.
///
/// # Errors
/// When not all of it was written, also because the reader has gone ([`io::ErrorKind::BrokenPipe`]).
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes `message` and a line end to standard error, after pending log lines. Gives up after a second.
pub fn complain(message: &str) {
    flush_log();
    let line = format!("{message}\n");
    let (done, ended) = sync_channel(1);
    // A blocked write never ends, so it has a thread that may be left behind.
    let written = thread::Builder::new().spawn(move || {
        let _ = io::stderr().write_all(line.as_bytes());
        let _ = done.send(());
    });
    if written.is_ok() {
        let _ = ended.recv_timeout(PATIENCE.into());
    }
}

/// The `error` of writing `what`, with `what` in its text.
pub fn unwritten(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what} cannot be written: {error}"))
}

/// The message for a result lost by an [`unwritten`] error; `None` for a closed pipe, whose reader needs no
/// explanation.
pub fn loss(error: &io::Error) -> Option<String> {
    (error.kind() != io::ErrorKind::BrokenPipe).then(|| error.to_string())
}

/// A writer for log lines. Every call of `write` is one line, and returns at once.
#[derive(Clone, Debug)]
pub struct LogWriter {
    queue: SyncSender<Message>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before this has been written; the answer is sent then.
    Flush(SyncSender<()>),
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
        let (queue, messages) = sync_channel(QUEUE_LINES);
        thread::Builder::new().name("forebay-log".into()).spawn(move || write_all(&messages))?;
        Ok(LOG.get_or_init(|| LogWriter { queue }).clone())
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(Message::Line(line.to_vec())).is_err() {
            // Ordering: relaxed, a count.
            LINES_LOST.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until all pending log lines are written, for a second at most.
pub fn flush_log() {
    let Some(LogWriter { queue }) = LOG.get() else { return };
    let deadline = clock::now().plus(PATIENCE);
    let (written, ended) = sync_channel(1);
    let mut message = Message::Flush(written);
    while let Err(full) = queue.try_send(message) {
        if clock::now() >= deadline {
            return;
        }
        let (TrySendError::Full(unsent) | TrySendError::Disconnected(unsent)) = full;
        message = unsent;
        thread::sleep(LOOK_AGAIN.into());
    }
    let _ = ended.recv_timeout(deadline.minus(clock::now()).into());
}

fn write_all(messages: &Receiver<Message>) {
    for message in messages {
        match message {
            // A line that cannot be written, say to a full disk, is lost; there is no other place to report it.
            Message::Line(line) => drop(io::stderr().write_all(&line)),
            Message::Flush(written) => drop(written.send(())),
        }
        let lost = LINES_LOST.swap(0, Ordering::Relaxed);
        if lost > 0 {
            // Through the queue, which has room now, so that it has the format of all other lines.
            tracing::warn!(lost, "log lines were lost: nobody read standard error");
        }
    }
}
