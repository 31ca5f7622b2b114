//! Reads lines of a file. The size is bounded, so an endless pipe or device does no harm.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// The longest line. A trace's header may name a workload file by the longest path of Linux.
const LINE_BYTES_MAX: u64 = 8 << 10;

/// The file at `path`, to be read.
pub fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| unreadable(&error))
}

/// Calls `take` with each line of `text` that is neither blank nor a comment. An error of `take`
/// gets the number of the line. A text of more than `bytes_max` bytes is the error `too_large`.
pub fn each(
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
