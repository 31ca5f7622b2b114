//! Logs panics of handlers, one line each and a few per second, without blocking a worker on the
//! log.
//!
//! The default hook writes to standard error from the panicking thread. If standard error is a full
//! pipe that no process reads, the worker would block. So this hook only stores the lines, and the
//! control thread logs them once a second.

use crate::output::{LogWriter, plain};
use crate::runtime::continuation::{is_contained, lock, panic_message};
use std::io::Write;
use std::mem;
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, Once};

/// The most log lines per second; further panics are only counted.
const LINES_PER_SECOND: usize = 10;
/// The longest part of a panic's message that is logged, in characters.
const MESSAGE_MAX: usize = 500;

/// Lines that are not logged yet, and the number of panics without a line.
static PENDING: Mutex<(Vec<String>, u64)> = Mutex::new((Vec::new(), 0));

/// Installs a hook that stores a line for every panic that a server catches, for [`log_pending`].
/// Other panics go to the previous hook.
pub(super) fn keep_contained() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| if is_contained() { keep(panic) } else { others(panic) }));
    });
}

/// Logs the lines that the hook has stored.
pub(super) fn log_pending() {
    let (lines, more) = mem::take(&mut *lock(&PENDING));
    lines.iter().for_each(|line| say(line));
    if more > 0 {
        say(&format!("{more} more panics of handlers within a second"));
    }
}

fn keep(panic: &PanicHookInfo<'_>) {
    let (lines, more) = &mut *lock(&PENDING);
    if lines.len() < LINES_PER_SECOND {
        lines.push(line(panic));
    } else {
        *more += 1;
    }
}

/// The log line of a panic. It is cleaned, because the message may contain text from a client.
fn line(panic: &PanicHookInfo<'_>) -> String {
    let message = one_line(panic_message(panic.payload()).unwrap_or("(no message)"));
    match panic.location() {
        Some(place) => format!("a handler panicked at {place}: {message}"),
        None => format!("a handler panicked: {message}"),
    }
}

fn one_line(text: &str) -> String {
    let line = plain(text).replace('\n', r"\n").replace('\t', r"\t");
    line.chars().take(MESSAGE_MAX).collect()
}

fn say(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::error!("{line}");
    } else if let Ok(mut log) = LogWriter::start() {
        let _ = log.write_all(format!("{line}\n").as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is a message one line of bounded length, whatever a client put into it?
    #[test]
    fn a_message_is_one_line() {
        assert_eq!(one_line("plain \u{e9} text"), "plain \u{e9} text");
        assert_eq!(one_line("two\nlines\x1b[2J\0"), "two\\nlines\\u{1b}[2J\\u{0}");
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MESSAGE_MAX);
    }
}
