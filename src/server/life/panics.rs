//! Panics of handlers: one log line each, a few per second, and no worker waits for a reader of the log.
//!
//! The default hook writes to standard error from the panicking thread. An unread pipe would then stop every worker
//! that serves a bad request.

use crate::runtime::continuation::is_contained;
use crate::time::{Nanos, clock};
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Log lines per second; further panics are only counted.
const LINES_PER_SECOND: usize = 10;

/// The longest part of a panic's message that is shown, in characters.
const MESSAGE_MAX: usize = 500;

/// How long a stopping server waits for pending lines to be written.
const PATIENCE: Nanos = Nanos::from_millis(100);

/// Lines logged in the current second.
static SHOWN: AtomicUsize = AtomicUsize::new(0);
/// Panics without a line, not yet reported.
static SUPPRESSED: AtomicU64 = AtomicU64::new(0);
/// Lines handed to the logging thread and not yet written.
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Makes a thread of its own log every panic that a server catches. All other panics go to the previous hook.
pub(super) fn log_contained() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let (lines, queue) = sync_channel(LINES_PER_SECOND);
        // Without a thread, the previous hook stays in place.
        if thread::Builder::new().name("forebay-panics".into()).spawn(move || log(&queue)).is_err() {
            return;
        }
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| if is_contained() { tell(panic, &lines) } else { others(panic) }));
    });
}

/// Waits until pending lines are logged, for at most [`PATIENCE`].
pub(super) fn settle() {
    let deadline = clock::now().plus(PATIENCE);
    // Ordering: relaxed, a count to wait for.
    while PENDING.load(Ordering::Relaxed) > 0 && clock::now() < deadline {
        thread::sleep(Nanos::from_millis(1).into());
    }
}

fn tell(panic: &PanicHookInfo<'_>, lines: &SyncSender<String>) {
    // Ordering: relaxed here and below, counts that guard nothing.
    if SHOWN.fetch_add(1, Ordering::Relaxed) < LINES_PER_SECOND {
        PENDING.fetch_add(1, Ordering::Relaxed);
        if lines.try_send(line(panic)).is_ok() {
            return;
        }
        PENDING.fetch_sub(1, Ordering::Relaxed);
    }
    SUPPRESSED.fetch_add(1, Ordering::Relaxed);
}

/// The log line of a panic; its message may have come from a client.
fn line(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = one_line(text.unwrap_or("(no message)"));
    match panic.location() {
        Some(place) => format!("a handler panicked at {place}: {message}"),
        None => format!("a handler panicked: {message}"),
    }
}

fn one_line(text: &str) -> String {
    let escaped = |character: char| {
        let plain = (!character.is_control()).then_some(character);
        plain.into_iter().chain(character.escape_default().filter(move |_| plain.is_none()))
    };
    text.chars().flat_map(escaped).take(MESSAGE_MAX).collect()
}

fn log(queue: &Receiver<String>) {
    while let Ok(first) = queue.recv() {
        let end = clock::now().plus(Nanos::from_secs(1));
        let mut next = Some(first);
        while let Some(line) = next {
            say(&line);
            PENDING.fetch_sub(1, Ordering::Relaxed);
            next = queue.recv_timeout(end.minus(clock::now()).into()).ok();
        }
        SHOWN.store(0, Ordering::Relaxed);
        let more = SUPPRESSED.swap(0, Ordering::Relaxed);
        if more > 0 {
            say(&format!("{more} more panics of handlers within a second"));
        }
    }
}

/// Writes without a time limit: this thread has nothing else to do.
fn say(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{line}");
    } else {
        let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does a message stay one line of bounded length, whatever a client put into it?
    #[test]
    fn a_message_is_one_line() {
        assert_eq!(one_line("plain \u{e9} text"), "plain \u{e9} text");
        assert_eq!(one_line("two\nlines\x1b[2J\0"), "two\\nlines\\u{1b}[2J\\u{0}");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MESSAGE_MAX);
    }
}
