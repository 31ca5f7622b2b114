//! Lines of a file that people and programs write: bounded, so that a pipe or a device without an
//! end is no trap.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line: a header of a trace whose workload is a file with the longest path that Linux
/// takes.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// The file at `path`, to be read.
pub(super) fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| unreadable(&error))
}

/// Calls `take` with each line of `text` that is neither blank nor a comment. An error of it gets
/// the number of the line, and a text of more than `bytes_max` bytes is `too_large`.
pub(super) fn each(
    text: impl Read,
    bytes_max: u64,
    too_large: &str,
    mut take: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), String> {
    let (mut text, mut bytes) = (BufReader::new(text).take(bytes_max + 1), Vec::new());
    for line in 1.. {
        bytes.clear();
        let read = text.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        if read.map_err(|error| unreadable(&error))? == 0 {
            break;
        }
        if text.limit() == 0 {
            return Err(too_large.to_owned());
        }
        let taken = match std::str::from_utf8(&bytes).map(str::trim) {
            _ if bytes.len() as u64 == LINE_BYTES_MAX => Err(format!("it is longer than {LINE_BYTES_MAX} bytes")),
            Err(_) => Err("it is not text (UTF-8)".to_owned()),
            Ok(words) if words.is_empty() || words.starts_with('#') => Ok(()),
            Ok(words) => take(words),
        };
        taken.map_err(|problem| format!("line {line}: {problem}"))?;
    }
    Ok(())
}

fn unreadable(error: &std::io::Error) -> String {
    format!("it cannot be read: {error}")
}
